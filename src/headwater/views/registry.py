"""The old name of `targets.registry`; what is public of it is in `headwater.views`."""

from headwater.deprecation import moved

__getattr__ = moved("headwater.views.registry", "headwater.views.targets.registry")
