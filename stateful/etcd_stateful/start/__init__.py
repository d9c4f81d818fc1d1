"""The init container `start`: its settings and tickets, what it finds, what it decides (I3)."""
