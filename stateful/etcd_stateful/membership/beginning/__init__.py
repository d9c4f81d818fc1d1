"""How a cluster begins, and what it begins with."""
