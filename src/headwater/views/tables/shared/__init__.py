"""The state of views over tables on storage that a cluster shares: computed by executors, held by nobody.

batch.py       each batch of a query: its records to changes, and where differences go
upkeep.py      the state, batch by batch
steps.py       what one batch does: the four steps of DESIGN.md
net.py         the changes of a batch to rows as they were and as they are
difference.py  what differs from what the view holds
pieces.py      the files of a state as DataFrames, and back
manifest.py    which files make up the state after a batch; pure
chain.py       one manifest after another, whoever else is at work, and what is no longer needed; pure
folder.py      small files there, by Spark's own client of it: written whole or not at all
takeover.py    what one machine kept in a file, brought there once
"""
