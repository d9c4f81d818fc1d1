"""Reads Kubernetes objects into values of the core."""
