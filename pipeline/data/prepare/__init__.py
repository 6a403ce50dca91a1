"""Preparing a data set once: images as they are handed out in, shards out. `make prepare`. Torch-free."""
