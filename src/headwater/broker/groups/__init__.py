"""Consumer groups: who is a member, who reads which partition, and how far each group has come.

Requests come in through `api/k08 … k16, k42, k47`, each of which calls one method of
`coordinator.GroupCoordinator`. From there inwards everything is pure: `classic` and its moves
(`join`, `rebalance`, `sync`) decide and return effects, `offsets` is the view of committed
positions, `records` is how both look in the internal topic `__consumer_offsets`. The newer protocols have
a package each, `consumer` and `streams`, upon what they share: `modern`, `settlement`, `timeouts`.
"""

from headwater.broker.groups.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
