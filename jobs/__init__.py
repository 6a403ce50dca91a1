"""Turning a configuration into a batch job. Knows nothing of tensors."""
