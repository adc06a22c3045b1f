"""Run: one call, from its micro-batches to its results."""
