"""What the operator tells about itself: logs, metrics, probes."""
