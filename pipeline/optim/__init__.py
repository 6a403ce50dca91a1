"""Optimisers and schedules."""
