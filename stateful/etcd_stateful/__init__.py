"""The core: decides, never acts. Pure and typed; no I/O, no clock, no kopf, no kubernetes."""
