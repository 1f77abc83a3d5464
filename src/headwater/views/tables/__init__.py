"""Views over tables: a query that joins and aggregates change streams, kept current row by row.

analysed.py   Spark's analysed plan to `algebra`: what is matched with what, by which columns
program.py    that algebra to SQL for the state: which keys a change touches, which rows they need
store.py      the state of the tables, and which rows the view holds: one DuckDB file
decoding.py   change records to typed changes
frames.py     rows between the state and Spark
upkeep.py     one micro-batch: the four steps of DESIGN.md
writing.py    the difference to a target
"""
