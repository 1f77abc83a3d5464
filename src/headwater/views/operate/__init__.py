"""What people do with views that run: wait for them, compare them with the log, put them right.

wait              until a view has what was written
progress          which views there are, and how far each is
versions          several of a view side by side, and which one is current
differences       a view compared with the log; verification_log: what was found, and when
repair            rows that differ, put right
pause             a view that holds still while it is compared or repaired
"""
