"""JSON Schema, drafts 4 to 2020-12: parsed, its references resolved from what was sent alone, compared."""
