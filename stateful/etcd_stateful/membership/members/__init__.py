"""Members, one at a time: added, promoted, replaced, removed."""
