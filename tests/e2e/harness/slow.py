"""What a machine that is full of other tests is given."""

SLOW = 3
"""Limits are several times what a quiet machine takes. A full one is given so many times as long: a
limit tells what hangs, and `make bench` what is slow."""
