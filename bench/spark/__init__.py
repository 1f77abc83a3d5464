"""The Spark source beside Spark's own Kafka connector: replay, first batch, micro-batch floor.

`python -m bench.spark` (make bench-spark); see bench/README.md for how to read it.
"""
