"""Share groups: the pure machines by hand and by chance, then the running coordinator."""
