"""Client quotas: how much a user, a client or an address may take; KIP-13, KIP-124, KIP-599, KIP-612.

`windows` measures, `entities` knows whose quota counts, `change` and `filters` are what AlterClientQuotas
and DescribeClientQuotas ask; all of them are pure. `enforcement` puts them together for the broker.
"""
