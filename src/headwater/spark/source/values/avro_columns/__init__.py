"""Avro values to Arrow's columns, in compiled code: `plan` makes steps of a writer's schema, `program` runs
them over a column of values, `arrays` builds Arrow's columns of what it found. `registry` asks.
"""
