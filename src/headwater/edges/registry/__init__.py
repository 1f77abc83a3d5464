"""The schema registry by HTTP: Confluent's REST interface over `headwater.schemas`.

server   from words to a listening registry      app       one request: who, what, answer or error
config   [schemas] of headwater.toml             access    tokens, and which subjects they reach
routes   every path with its handler             subjects, schemas, settings   the handlers
"""
