"""Clients' own metrics, as they push them: KIP-714.

`subscriptions` says which client is to send what, `collector` reads what comes and puts both
together for the two APIs and writes what was pushed to a topic.
"""
