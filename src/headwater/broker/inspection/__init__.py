"""A data folder looked at as a whole while no broker runs: what is wrong, what it means, what mends it.

`headwater check` calls `check.inspect`, `headwater repair` calls `repair.repair`. One file for each thing
that is looked at; each yields `Finding`s and changes nothing. Only `surgery` and `aside` write.
"""
