"""headwater: one ordered, durable, replayable log, and everything else as a view of it."""
