"""The old name of `targets.json_rows`; what is public of it is in `headwater.views`."""

from headwater.deprecation import moved

__getattr__ = moved("headwater.views.json_rows", "headwater.views.targets.json_rows")
