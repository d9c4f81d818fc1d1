"""A real Kubernetes cluster on this machine, built from package registries. See ../README.md."""
