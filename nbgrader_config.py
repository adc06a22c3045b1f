"""Plain `nbgrader` commands typed here find the course's settings."""

load_subconfig("jupyter_config/nbgrader_config.py")  # noqa: F821 - given by Jupyter
