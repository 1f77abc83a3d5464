"""The fault matrix: every operation of the broker under every fault of its disk."""
