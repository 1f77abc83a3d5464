"""The newer consumer group protocol (KIP-848), next to the classic one in the package above.

A member says what it subscribes to and what it owns; the coordinator decides who gets what and
leads each member there, a partition being given to a new owner only when the old one has let go.

    heartbeat   ConsumerGroupHeartbeat: join, stay, leave
    steps       what both kinds of members do to the group; the next target assignment, by `assignors`,
                over the topics of `subscriptions`
    reconcile   one member one step closer to its target
    classic     JoinGroup, SyncGroup, Heartbeat, LeaveGroup of classic members in such a group
    migration   a classic group becomes one of these, and back
    service     what the handlers call; everything else is pure
"""
