"""The world around the planner: what it may see, what its steps do, and what else may happen."""
