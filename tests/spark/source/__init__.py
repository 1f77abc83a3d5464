"""Tests of the Spark source: mostly in this process, as Spark's workers would call it; some in a session."""
