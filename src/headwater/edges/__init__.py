"""The edges: events in from anywhere, changes out to anyone.

One process, `headwater edges`, beside the log: HTTP in, webhooks in and out, devices by UDP, bridges to other
brokers, changefeeds, reads of views, alerts, metrics and traces.

    app        the HTTP interface: one router per file           services   what runs beside it
    guard      who may, from where, how much                     appending  records into the log
    config     [edges] of headwater.toml                         counts     what came, went and was refused
"""
