"""Data loaded in another process while the model works."""
