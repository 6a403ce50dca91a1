"""Samples: prepared as shards, staged into a node's memory, ordered, decoded. Knows no optimisers."""
