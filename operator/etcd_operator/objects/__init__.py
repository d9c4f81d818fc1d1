"""What objects of Kubernetes say, as values of the core."""
