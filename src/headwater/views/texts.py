"""The old name of `targets.texts`; what is public of it is in `headwater.views`."""

from headwater.deprecation import moved

__getattr__ = moved("headwater.views.texts", "headwater.views.targets.texts")
