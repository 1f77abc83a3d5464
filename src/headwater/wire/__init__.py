"""Kafka's messages as bytes, for the broker and for every client of it; no I/O.

messages.py   frames, headers, requests and responses of every version, along kio's entities
guard.py      what a stranger's request may cost, found before it is parsed
errors.py     bytes that are no request
"""
