"""What can be wrong with a record batch. The class says whose fault it was: bytes that were damaged
on the way or on disk, a format that is too old or too new, or a sender that says what is not so."""


class RecordError(Exception):
    """Any fault in the bytes of a record batch."""


class CorruptBatch(RecordError):
    """Truncated, of an impossible length, with a wrong checksum, or with garbage as its payload."""


class PayloadTooLarge(CorruptBatch):
    """Records that take more memory, decompressed, than is allowed: as good as garbage, and not read."""


class UnknownMagic(RecordError):
    """A message format other than version 2."""


class InvalidBatch(RecordError):
    """Well formed and intact, but its header says something that its contents or the rules deny."""
