"""The state of views over tables on storage that a cluster shares: computed by executors, held by nobody.

folder.py      small files there, by Spark's own client of it: written whole or not at all
manifest.py    which files make up the state after a batch; pure
pieces.py      such files as DataFrames, and back
changes.py     records to the changes of each table, by executors
netting.py     the changes of a batch to rows as they were and as they are
difference.py  what differs from what the view holds
takeover.py    what one machine kept in a file, brought there once
upkeep.py      one micro-batch: the four steps of DESIGN.md
following.py   each batch of a query, and where differences go
"""
