"""Client quotas: how much a user, a client or an address may take; KIP-13, KIP-124, KIP-599, KIP-612.

`windows` measures, `entities` knows whose quota counts; both are pure. `enforcement` puts them together for
the broker. What AlterClientQuotas and DescribeClientQuotas ask is in their files (`api/`).
"""
