"""Views as a full-text index (tantivy) in a folder."""
