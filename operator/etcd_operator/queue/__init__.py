"""Decides which object gets a pass, and when."""
