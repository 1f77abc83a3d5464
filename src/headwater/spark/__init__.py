"""The log in PySpark: `source/` reads topics, `sink/` writes them. Spark finds both through
`pyspark_headwater` under the one name `format("headwater")`.

Nothing heavy is imported here: a worker pays only for what it uses.
"""
