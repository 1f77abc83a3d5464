"""Changefeeds of views: `routes` for HTTP, `feeds` of each view, `changes` as a topic has them."""
