"""Logs, metrics and probes of the operator."""
