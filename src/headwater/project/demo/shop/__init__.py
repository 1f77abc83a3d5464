"""The demo's second half: a database is captured, three views follow it, and all four must agree."""
