"""Who somebody is, by the word of an issuer (OpenID Connect, JWT): for broker, edges, console and clients.

| file | holds |
|---|---|
| `errors` | whose fault it was: the token's, or the issuer's |
| `web` | one question to an issuer, bounded in bytes and time; https, or http on loopback |
| `keys` | its public keys, kept, fetched again when they are old or one is unknown |
| `claims` | pure: what a token that is signed rightly must say, and who it then speaks of |
| `validator` | a token, its signature checked by joserfc, to an identity |
| `settings` | pure: a section of headwater.toml that names an issuer |
| `code_flow` | signing in by a browser: authorization code, PKCE, nonce |
| `grants` | tokens for a process of ours, by the client credentials grant, renewed in time |

One ring with `wire`, under client and broker alike, because both need it and must not import each other. Only
`validator`, `keys` and `code_flow` load joserfc: whoever wants no tokens never does.
"""
