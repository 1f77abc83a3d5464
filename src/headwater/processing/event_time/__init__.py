"""The source behind `event_stream`: headwater's own, which also knows the time.

options    what `event_stream` tells the source
events     `event_stream`: a topic as a stream of events in time, for users
source     `format("headwater-events")`: the stream of records, with ticks while nothing comes;
           what Spark's watermark was, from the query's checkpoint
lateness   which events are on time, too late or not in time at all; pure
output     what a task hands to Spark, and what it keeps in the late topic instead
"""
