"""The API server: reads, writes, watches, and the store of what they returned."""
