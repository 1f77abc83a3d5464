"""Bridges between topics and other systems, as `[edges.bridges.NAME]` names them.

contract   what a bridge is: `Inbound`, `Outbound`, for ours and for other people's
registry   which class an address means: our schemes, entry points, `module:Class`
config     a section of headwater.toml, checked
running    the service: log → bridge and bridge → log, positions, dead letters, counts
zeromq, mqtt, amqp   three other worlds; UDP and multicast are in `edges.udp` and `edges.multicast`
"""
