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
    assert "exp5 at mine: 4 workers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--batches", "1,x"], "--batches 1,x: whole numbers above 1"),
        (["--output", "/nowhere/at/all.yaml"], "there is no folder"),
        (["--output", __file__], "is there already"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], line: str) -> None:
    with pytest.raises(UserError, match=line):
        check(parse(words))
