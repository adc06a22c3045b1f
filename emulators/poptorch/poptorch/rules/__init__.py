"""Rules: what the chip refuses, each refusal beside its words."""
