"""Pods restarted one at a time, for a new spec or another version."""
