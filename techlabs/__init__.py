"""What a learner's notebook imports: the bench, and the helper of a lab."""

from techlabs.lab import Lab
from techlabs.machines import bench

__all__ = ["Lab", "bench"]
