"""Sites for tests."""

from typing import Any

from pipeline.config.site import SiteConfig


def site(**values: Any) -> SiteConfig:
    """A site of CPU nodes, with other values where they are given."""
    return SiteConfig(**{"name": "a", "scheduler": "slurm", "backend": "gloo", "device": "cpu", **values})
