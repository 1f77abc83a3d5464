"""Views: derived systems that follow the log, exactly once, at a known position.

`target` is the contract that every system meets, `position` how far a view is in the log.
"""
