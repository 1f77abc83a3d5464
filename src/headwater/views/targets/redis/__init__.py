"""Views in Redis: a hash, a JSON text or a member of a sorted set per row."""
