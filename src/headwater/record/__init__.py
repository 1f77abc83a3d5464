"""The record and the batch it travels in. Pure functions over bytes: no files, no sockets,
no clock. Everyone who touches the log's bytes calls these modules by name:

    batch     the 61-byte header, checksum, offsets; batches as units
    records   the records inside a batch
    control   the markers that end transactions
    codecs    compression
    correction   one wrong bit of a batch set right
    errors    what can be wrong
    forms     whether the hot ones run compiled
"""

from headwater.record import forms

forms.choose(__name__, __path__)
