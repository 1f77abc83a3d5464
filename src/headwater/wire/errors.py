"""What can be wrong with what a client sends, before any API is concerned."""


class WireError(Exception):
    """Bytes that are not a Kafka request; the connection that sent them is closed."""


class BeyondBound(WireError):
    """More than one request may have. It may be told so, where its answer has a place for it."""


class TooManyElements(BeyondBound):
    """In all of its arrays."""


class StringTooLong(BeyondBound):
    """Kafka's strings have at most 32,767 bytes, however their length is written."""
