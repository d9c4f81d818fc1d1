"""The core: it decides and never acts. No I/O, no clock, no kopf and no Kubernetes client."""
