"""The orders of the recovery Job and the restore Job, and their decisions about a volume."""
