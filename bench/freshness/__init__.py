"""How long a commit in the database takes until a view shows it."""
