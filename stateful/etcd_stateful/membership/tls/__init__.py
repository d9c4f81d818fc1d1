"""A cluster's links, between members and to clients: certificates, authorities, TLS on and off."""
