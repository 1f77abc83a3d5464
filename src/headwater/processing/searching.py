"""The old name of `percolator`."""

from headwater.deprecation import moved

__getattr__ = moved("headwater.processing.searching", "headwater.processing.percolator")
