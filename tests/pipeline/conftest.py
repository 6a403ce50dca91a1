"""Fixtures of the training program's tests."""

import socket

import pytest


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names that have an address; this node is node7."""
    known: dict[str, str] = {}

    def resolve(name: str) -> str:
        if name not in known:
            raise socket.gaierror
        return known[name]

    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    monkeypatch.setattr(socket, "getfqdn", lambda: "node7.example")
    monkeypatch.setattr(socket, "gethostbyname", resolve)
    return known
