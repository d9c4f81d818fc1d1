"""Shared by the end-to-end tests and the benchmarks: clients, waits and checks."""
