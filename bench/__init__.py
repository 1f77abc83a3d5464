"""Benchmarks: every peer runs in the same run, and what comes out are ratios."""
