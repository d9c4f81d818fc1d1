"""The init container `start`: what it is told, what it finds, and what it decides (I3)."""
