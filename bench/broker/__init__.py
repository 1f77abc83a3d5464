"""The broker beside Apache Kafka: `make bench-broker`, or `python -m bench.broker --help`.

One file per kind of measurement (`raw`, `confluent`, `javatools`, `latency`, `start`, `growth`);
`contestants` starts the brokers, `meter` reads what they cost, `rows` says what is compared with
what and which target it has, `report` prints it. Everything talks to loopback only.
"""
