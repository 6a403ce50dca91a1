"""`make calibrate`: measurements become a profile that composes and can be estimated with."""

import shutil
from pathlib import Path

import pytest

from bench.calibrate import Found, Link, check, parse, profile
from jobs import compose, estimate
from pipeline.errors import UserError


def test_a_profile_composes_and_is_estimated_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(compose.CONF, tmp_path / "conf", ignore=shutil.ignore_patterns("user.yaml"))
    monkeypatch.setattr(compose, "CONF", tmp_path / "conf")
    path = tmp_path / "conf" / "site" / "mine.yaml"
    found = Found(2, 4, Link(2e9, 1e-4), Link(1e8, 2e-4), {16: 400.0, 64: 500.0}, 16 * 10**9)
    path.write_text(profile(found, parse(["--output", str(path)])))
    site = compose.compose(["exp=exp5", "site=mine"]).site
    assert (site.network.worker.gb_per_s, site.network.node.gb_per_s, site.network.node.latency_us) == (2, 0.1, 200)
    assert [one.images_per_s for one in site.hardware.speeds] == [400, 500]
    assert site.hardware.memory_gb == 16
    assert estimate.main(["exp=exp5", "site=mine"]) == 0
    assert "exp5 at mine, scale model of 2176 GPUs: 4 workers" in capsys.readouterr().out


def test_one_worker_sees_no_network_and_invents_none() -> None:
    text = profile(Found(1, 1, None, None, {16: 400.0}, 16 * 10**9), parse([]))
    assert "gb_per_s" not in text
    assert "one worker sees none, so it is the base's" in text


def test_what_was_not_measured_says_whose_figure_it_is() -> None:
    text = profile(Found(1, 4, Link(2e9, 1e-4), None, {16: 400.0}, 16 * 10**9), parse([]))
    assert "1 node of 4 workers, gloo" in text
    assert "    node:        # one node, so not measured: the worker's\n      gb_per_s: 2\n" in text


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--batches", "1,x"], "--batches 1,x: whole numbers above 1"),
        (["--batches", "²"], "--batches ²: whole numbers above 1"),
        (["--timeout", "nan"], "--timeout nan: seconds, above 0"),
        (["--base", "nowhere"], "--base nowhere: no such site; there are abci"),
        (["--workers", "x"], "invalid int value: 'x'"),
        (["--output", "mine"], "--output mine: a file's name .* that ends in .yaml"),
        (["--output", "my site.yaml"], "my site.yaml: a file's name of letters"),
        (["--output", "/nowhere/at/all.yaml"], "there is no folder"),
        (["--output", str(compose.CONF / "site" / "abci.yaml")], "is there already"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], line: str) -> None:
    with pytest.raises(UserError, match=line):
        check(parse(words))
