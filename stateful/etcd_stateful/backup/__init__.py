"""Backups: what is decided about them, apart from clocks, networks and stores."""
