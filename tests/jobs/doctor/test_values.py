"""What only the user knows is asked for; data are counted against the run."""

import json
from pathlib import Path

import pytest

from jobs.doctor import values
from tests.jobs.doctor.subjects import at_site, subject


def test_what_has_no_value_fails_and_says_how_make_is_told() -> None:
    found = {finding.what: finding for finding in values.values(subject("site=abci3", "nodes=2"))}
    assert {what: finding.level for what, finding in found.items()} == dict.fromkeys(
        ("site.account", "data.path", "container.image"), "FAIL"
    )
    assert "GROUP=" in found["site.account"].mend
    assert values.data(subject("site=abci3", "nodes=2")).level == "skip"


def test_what_has_one_is_shown_and_what_needs_none_is_not() -> None:
    found = list(values.values(at_site("slurm")))
    assert [(finding.what, finding.level, finding.found) for finding in found] == [
        ("site.account", "ok", "grp"), ("data.path", "ok", "/data"),
    ]  # fmt: skip
    assert str(found[1]) == "ok    data.path: given /data"


def test_samples_are_counted_against_the_run(sample: Path) -> None:
    assert values.data(subject(f"data.path={sample}")).found == "4,000 training samples"
    finding = values.data(subject(f"data.path={sample}", "data.train_samples=4001"))
    assert (finding.level, finding.mend) == ("FAIL", "data.train_samples=4000 would use them all")


def test_a_folder_without_shards_fails(tmp_path: Path) -> None:
    finding = values.data(subject(f"data.path={tmp_path}"))
    assert finding.level == "FAIL"
    assert "no manifest.json" in finding.found
    assert values.memory(subject(f"data.path={tmp_path}")).level == "skip"
    (tmp_path / "manifest.json").write_text("{}")
    assert "tells no samples" in values.data(subject(f"data.path={tmp_path}")).found


def test_synthetic_images_need_no_data() -> None:
    asked = subject("data=synthetic", "scale=null")
    assert [values.data(asked).level, values.memory(asked).level] == ["skip", "skip"]
    assert "data.path" not in {finding.what for finding in values.values(asked)}


def test_a_node_must_hold_the_samples(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "free_bytes", lambda _: 1_000)
    finding = values.memory(subject(f"data.path={sample}"))
    assert (finding.level, finding.found) == ("FAIL", "0.0 MB free in /dev/shm")
    assert values.memory(at_site("slurm", f"data.path={sample}", "data.train_samples=1")).level == "ok"


def test_what_either_placement_takes_of_a_node_is_told(tmp_path: Path) -> None:
    splits = {"train": {"samples": 2355, "bytes": 80 * 10**9}, "validation": {"samples": 10, "bytes": 10**9}}
    (tmp_path / "manifest.json").write_text(json.dumps({"splits": splits}))
    words = ("site.workers_per_node=1", "nodes=4", f"data.path={tmp_path}")
    found = values.memory(at_site("slurm", *words)).found
    assert found == "81.0 GB of samples for /dev/shm of each node, or about 45.6 GB with data.placement=partitioned"
