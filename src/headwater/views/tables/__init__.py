"""Views over tables: a query that joins and aggregates change streams, kept current row by row.

analysis.py   Spark's analysed plan to `algebra`: what is matched with what, by which columns
wants.py      values that are asked for, and from where in the query they come
program.py    that algebra to comparisons: which keys a change touches, which rows they need
relations.py  such comparisons, as SQL for the state
lookup.py     the same over rows that are in memory
aggregation.py which aggregates running totals can keep
totals.py     those totals, in the state
store.py      the state of the tables, and which rows the view holds: one DuckDB file
state.py      that file, what of it is in memory, and the journal between the two
memory.py     the state in memory, where it is small
row_index.py  one table there, by key and by other columns
plain_values.py Arrow's values as Python's that compare alike
journal.py    what was done in memory, on disk
net_changes.py the changes of a batch to rows as they were and as they are
envelopes.py  change records to typed changes, in compiled code
record_reader.py the same for many of them at once, column by column
arrow_values.py one JSON value to what Arrow takes, where Spark would say the same
decoder.py    the same for all records, by Spark: what is in doubt, and what is bad
bad_values.py what cannot be read as a change, to the dead letters
frames.py     rows between the state and Spark
pending_batch.py what a batch is about to do, on disk
plan.py       all that is known of a view before its first batch
upkeep.py     one micro-batch: the four steps of DESIGN.md
follower.py   each batch of a query, and where differences go
planner.py    from a function to a plan, when a view is built
"""
