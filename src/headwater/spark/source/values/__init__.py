"""Values as typed columns: the `schema` option. `schema.py` says what type a schema gives the column
`value`; `json.py` and `avro.py` turn bytes into it; what does not fit becomes a dead letter."""
