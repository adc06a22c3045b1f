"""What an instructor runs: build, grade, feedback."""
