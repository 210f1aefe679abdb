"""Benchmarks: each module `bench/<name>.py` has a function `rows()` that yields `Row` values; `make bench` runs them.

What counts is a ratio measured in one run on one machine: to a raw client, to kubectl, to the half-sized problem. They
are reports, never tests: nothing fails because a machine is slow.
"""
