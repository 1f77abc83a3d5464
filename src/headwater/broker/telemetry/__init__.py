"""Clients' own metrics, as they push them: KIP-714.

`subscriptions` says which client is to send what, `measurements` reads what comes, `collector` puts both
together for the two APIs and writes what was pushed to a topic.
"""
