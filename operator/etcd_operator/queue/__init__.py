"""Which object is looked at, and when."""
