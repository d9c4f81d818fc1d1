"""What ends an epoch and begins the next: a lost quorum, a recovery, a restore."""
