"""Runs for checks to look at."""

from jobs.doctor.__main__ import find_subject
from jobs.doctor.finding import Subject


def subject(*words: str) -> Subject:
    return find_subject(["exp=exp5", *words])


def at_site(site: str, *words: str) -> Subject:
    """A job of two nodes for which everything has a value."""
    values = ["nodes=2", "site.account=grp", "data.path=/data", "site.modules=[]"]
    return subject(f"site={site}", *values, *words)
