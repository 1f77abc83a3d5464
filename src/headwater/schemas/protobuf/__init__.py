"""Protobuf: .proto text or a serialised descriptor, with imports; the rules of its wire types."""
