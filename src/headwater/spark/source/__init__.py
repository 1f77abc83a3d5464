"""Topics as DataFrames: what `spark.read` and `spark.readStream` do with `format("headwater")`.

options.py    what the query asked for
where.py      starting and ending positions, from the options to offsets
position.py   the position of a stream, as its checkpoint keeps it
splits.py     ranges of offsets to tasks
plan.py       the driver's questions to the cluster: which topics, from where to where
batch.py, stream.py   Spark's two readers
task.py       one task: a range of one partition, from files or over the network, to Arrow
files.py      the segment files, where they can be seen; over the network it is `client.fetch`
"""
