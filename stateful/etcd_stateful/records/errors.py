"""Errors for records that cannot be read."""

from __future__ import annotations


class BadRecord(ValueError):
    """A record that this version cannot read. The operator holds instead of guessing."""


class NewerRecord(BadRecord):
    """A record that a newer operator wrote: it is intact, and this version must not change it."""
