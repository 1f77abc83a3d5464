"""Moving a project to Apache Kafka, with every offset as it was. Called by `headwater promote`.

arrival      the other direction: topics of another cluster, for `headwater import`
job          the steps in order, and what keeps them from being done
move         one run of them: plan, fill, compare, hand over
steps        pure: the batches of a partition as what must be written to get the same offsets again
writer       the steps, done to a partition of Kafka; sender: what is on its way there
partitions   one partition from where it stands; all of them, side by side
comparison   whether two partitions are the same to every reader
topics       which topics there are, their settings here and there
groups       how far consumer groups are
left_behind  what is not moved, by name
journal      what a move has begun, so that another run goes on with it
addresses    the two addresses in headwater.toml
"""
