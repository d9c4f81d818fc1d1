"""The API server: questions, writes, watches, and what they have brought."""
