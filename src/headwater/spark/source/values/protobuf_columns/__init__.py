"""Protobuf behind an id as columns, in compiled code; what that cannot read is read value by value."""
