"""What the end-to-end tests and the benchmarks stand on: clients, waits, checks."""
