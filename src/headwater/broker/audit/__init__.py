"""Who changed what: every request that changes more than records, written down by the broker itself.

interceptor   hears requests and their answers, in front of the handlers
parts         takes a request apart
changes       says what each part was
sizes         how much of it is repeated
refusals      how many refusals are told
trail         writes the lines to `__headwater_changes`
"""
