"""How much longer limits are on a machine that runs other tests."""

SLOW = 3
"""Limits are several times what a quiet machine takes, and are multiplied by this. A limit catches
what hangs; `make bench` measures what is slow."""
