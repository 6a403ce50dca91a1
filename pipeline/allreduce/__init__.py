"""Averaging gradients over the workers. Knows tensors and process groups, not models."""
