"""One file per Kafka API, named by its key: `k00_produce.py`, `k01_fetch.py`, …"""
