"""Mutated requests on a real socket, against a real broker process."""
