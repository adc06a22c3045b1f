"""Weights twice: the host's and the device's."""
