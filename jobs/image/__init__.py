"""The image that ranks run in: built from the Dockerfile, wrapped into a SIF, looked at. Torch-free."""
