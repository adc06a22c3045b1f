"""The life of a compiled model: compiled, kept, saved, attached, run, and asked about."""
