"""Capture: the learner's program becomes a list of operations, and a function that computes them."""
