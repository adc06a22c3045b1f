"""The weight update on the device, and the optimizer that describes it."""
