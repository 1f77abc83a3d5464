"""Rehearsals of disaster from a seed: the log on a disk that fails, against a model that does not."""
