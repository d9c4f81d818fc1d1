"""A cluster's links: their certificates and authorities, and whether they have TLS."""
