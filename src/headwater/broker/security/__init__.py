"""Who may talk to the broker, and what they may do: listeners, TLS, SASL, ACLs.

| file | holds |
|---|---|
| `listeners` | the addresses, each with its security protocol; what may be open to the network |
| `tls` | PEM files to an SSL context |
| `acceptor`, `admission` | who is let in at all, and counted, before anything is made for it |
| `handshakes`, `tls_session`, `tls_records` | TLS on an accepted socket, so much of it in one turn |
| `principal` | who a client is; names from certificates |
| `scram`, `plain`, `bearer`, `login` | SASL: the kinds of proof, and one connection's way through them |
| `credentials` | users' salted keys, a view of the catalogue |
| `acls`, `authorizer` | who may do what with which resource, a view of the catalogue |
| `rules/` | for each API, which of its parts need which permission |

With no authorizer and on a plain listener none of this costs a request anything.
"""
