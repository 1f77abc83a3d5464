"""A whole project at work: the parts as processes, run together. Called by the command line."""
