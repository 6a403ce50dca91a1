"""Whatever stands in a file, its reader gives an answer or one clear line, in bounded memory, torch's included."""

import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import checkpoint
from pipeline.errors import UserError
from tests.faults.mutations import mutated
from tests.fuzzing.bounds import bounded
from tests.fuzzing.targets import Target, targets

NAMES = [
    "manifest", "index", "shard", "config.yaml", "overrides.yaml", "result.json", "metrics.jsonl", "allreduce.json",
    "mlperf.log", "totals.json", "submissions.jsonl", "checkpoint", "pickle of a checkpoint",
    "archive",
]  # fmt: skip

SHORT, LONG = 12, 700
"""Examples of each."""

FUZZED = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol")  # torch's word on a changed number


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    return targets(tmp_path_factory.mktemp("targets"))


def test_every_target_is_fuzzed_and_takes_its_good_file(made: dict[str, Target]) -> None:
    assert sorted(made) == sorted(NAMES)
    for target in made.values():
        target.read()


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_gives_an_answer_or_one_line(name: str, made: dict[str, Target]) -> None:
    fuzz(made[name], SHORT)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_gives_an_answer_or_one_line_a_thousand_times(name: str, made: dict[str, Target]) -> None:
    fuzz(made[name], LONG)


def fuzz(target: Target, examples: int) -> None:
    """Try so many changes of its good file."""
    good = target.path.read_bytes()

    @settings(FUZZED, max_examples=examples)
    @given(data=st.data())
    def reads(data: st.DataObject) -> None:
        target.path.write_bytes(data.draw(mutated(good)))
        bounded(target.read)

    try:
        reads()
    finally:
        target.path.write_bytes(good)


def test_a_small_checkpoint_that_unpacks_into_a_large_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members_of({"model": {"w": torch.zeros(2**25)}}, tmp_path / "plain.pt").items():
            archive.writestr(name, content)
    assert path.stat().st_size < 2**20
    assert "bomb.pt is damaged or no checkpoint" in str(bounded(lambda: checkpoint.read(path)))


def members_of(content: object, path: Path) -> dict[str, bytes]:
    """The members of the archive that torch.save makes."""
    torch.save(content, path)
    with zipfile.ZipFile(path) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist()}


@pytest.mark.parametrize(
    "change",
    [
        {"update": "ten"},
        {"model": [1]},
        {"plan": None},
        {"model": {"fc.bias": torch.zeros(1).expand(2**40)}},
        {"optimizer": {"state": {0: {"velocity": torch.zeros(1).expand(2**40)}}}},
    ],
)
def test_what_is_no_state_is_refused_before_it_is_used(change: dict[str, object], tmp_path: Path) -> None:
    good = {"update": 10, "model": {"fc.bias": torch.zeros(3)}, "optimizer": {}, "scaler": {}, "plan": {}}
    path = tmp_path / "update-000010.pt"
    torch.save(good, path)
    assert checkpoint.read(path).update == 10
    torch.save(good | change, path)
    assert "is damaged or no checkpoint" in str(bounded(lambda: checkpoint.read(path)))


def test_weights_of_another_network_are_told_in_one_line(made: dict[str, Target]) -> None:
    target = made["checkpoint"]
    good = target.path.read_bytes()
    content = torch.load(target.path, weights_only=True)
    content["model"]["fc.bias"] = torch.zeros(3)
    torch.save(content, target.path)
    try:
        with pytest.raises(UserError, match=r"does not fit this run \(RuntimeError: .*size mismatch for fc.bias"):
            target.read()
    finally:
        target.path.write_bytes(good)
