"""The edges under load: events in by HTTP and UDP, changefeeds out to a thousand clients.

servers    a broker, the edges, and the peer, each in a process of its own
plain      the peer: what one would write instead, with FastAPI and confluent-kafka
clients    HTTP requests and event streams on bare sockets, so that the client is not what is measured
http_in, udp_in, fan_out   one kind of measurement each
"""
