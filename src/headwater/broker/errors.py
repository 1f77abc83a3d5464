"""What can be wrong with what a client sends, before any API is concerned."""


class WireError(Exception):
    """Bytes that are not a Kafka request; the connection that sent them is closed."""
