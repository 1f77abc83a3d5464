"""Every operator of `headwater.processing` beside what a Python user would pick instead.

`python -m bench.processing` (make bench-processing); see bench/README.md for how to read it.
"""
