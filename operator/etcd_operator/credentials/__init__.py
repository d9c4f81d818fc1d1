"""Keys, certificates and passwords: made, checked, renewed, rotated."""
