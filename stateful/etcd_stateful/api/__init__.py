"""The custom resources, parsed once at the edge into frozen types."""
