"""The newer consumer group protocol: pure machines first, then the whole coordinator."""
