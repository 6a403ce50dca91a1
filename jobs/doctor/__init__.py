"""Checks before a job is submitted: a small function each, a line each. `make doctor SITE=…`. Torch-free."""
