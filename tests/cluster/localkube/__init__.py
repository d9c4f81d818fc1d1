"""A real Kubernetes on this machine, from package registries alone. See ../README.md."""
