"""Records that cannot be read."""

from __future__ import annotations


class BadRecord(ValueError):
    """A record that this version cannot read. The cluster is held rather than guessed at."""


class NewerRecord(BadRecord):
    """One that a later version has written: sound, and not to be touched by this one."""
