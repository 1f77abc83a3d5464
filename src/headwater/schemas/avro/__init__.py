"""Avro: names, aliases, defaults, unions and logical types, as the specification (1.12) has them."""
