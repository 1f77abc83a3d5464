"""The event sourcing library beside the `eventsourcing` package. Run as `python -m bench.events`."""
