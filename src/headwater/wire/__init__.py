"""Kafka's messages as bytes, for the broker and for every client of it; no I/O.

messages.py   frames, headers, requests and responses of every version, along kio's entities
guard.py      what a stranger's request may cost, found before it is parsed
regex.py      what a stranger's regular expression may cost
errors.py     bytes that are no request
only_kio.py   kio without what it would bring along; imported before anything else of kio's
"""
