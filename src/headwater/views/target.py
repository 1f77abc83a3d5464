"""The old name of `targets.contract`; what is public of it is in `headwater.views`."""

from headwater.deprecation import moved

__getattr__ = moved("headwater.views.target", "headwater.views.targets.contract")
