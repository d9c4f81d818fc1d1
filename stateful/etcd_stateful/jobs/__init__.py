"""What the Jobs of a recovery and of a restore are told, and decide about a volume."""
