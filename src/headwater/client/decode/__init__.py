"""Record batches to Arrow columns, in compiled code. `source/` hands in bytes, from files or the wire.

headers.py    which batches are in the bytes, and which of them count
records.py    the records of those batches, column by column (numba)
columns.py    the two put together: bytes in, Arrow record batches out
machine.py    where compiled code is kept, so that a worker need not compile again
"""
