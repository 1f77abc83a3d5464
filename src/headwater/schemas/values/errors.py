"""What can be wrong with one value; whoever asked says where it was."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class NotOfItsSchema(HeadwaterError):
    """Bytes that are not of the schema that they name, or a value that a schema does not take."""


class SchemaNotFound(HeadwaterError):
    """No registry knows the id, or the subject."""
