"""How tidy the code is, in numbers that may only fall: a part of `make lint`.

`measures` counts, file by file; `ratchet` compares with `numbers.txt`, what has been reached. `make lint`
fails where a number is higher than the one written down, and also where it is lower: a number that nobody
wrote down would let the next change rise to the old one unseen. It does not write by itself, for a check must
not change what it checks; `make tidy` does, and refuses where the sum of a measure would rise.
"""
