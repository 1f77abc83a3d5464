"""The schema registry: requests a second and how long they take; encoding and decoding beside the
libraries.
"""
