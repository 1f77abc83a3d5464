"""Views over tables: a query that joins and aggregates change streams, kept current row by row.

analysed.py   Spark's analysed plan to `algebra`: what is matched with what, by which columns
wants.py      values that are asked for, and from where in the query they come
program.py    that algebra to SQL for the state: which keys a change touches, which rows they need
store.py      the state of the tables, and which rows the view holds: one DuckDB file
netting.py    the changes of a batch to rows as they were and as they are
decoding.py   change records to typed changes
bad_values.py what cannot be read as a change, to the dead letters
frames.py     rows between the state and Spark
pending.py    what a batch is about to do, on disk
upkeep.py     one micro-batch: the four steps of DESIGN.md
following.py  each batch of a query, and where differences go
planning.py   from a function to a plan, when a view is built
"""
