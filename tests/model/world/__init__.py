"""The world around the planner: what it observes, what its steps do, and what else may happen."""
