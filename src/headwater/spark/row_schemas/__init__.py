"""The rows of a DataFrame as a schema of each kind, to be registered for the topic they go to."""
