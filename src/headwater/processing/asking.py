"""The old name of `request_reply`."""

from headwater.deprecation import moved

__getattr__ = moved("headwater.processing.asking", "headwater.processing.request_reply")
