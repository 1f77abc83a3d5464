"""The old name of `targets.staged_files`; what is public of it is in `headwater.views`."""

from headwater.deprecation import moved

__getattr__ = moved("headwater.views.staged_files", "headwater.views.targets.staged_files")
