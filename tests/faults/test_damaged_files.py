"""Whatever stands in a file, its reader gives a right answer or one clear line: no crash, no hang, bounded memory."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.compose import compose
from pipeline import checkpoint
from pipeline.config import load, make_plan, save
from pipeline.data.epochs import Epochs
from pipeline.data.shards import read_index
from pipeline.data.staging import stage
from pipeline.errors import UserError
from pipeline.evaluate import OneProcess
from pipeline.metrics import newest_lines
from pipeline.run_folder import RunFolder
from tests.faults.mutations import mutated
from tests.pipeline.data.images import jpeg, write_images

MOST_BYTES = 64 * 2**20
"""That a reader may take for files of some kilobytes."""

FUZZED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def answers(read: Callable[[], object]) -> object:
    """What a reader gives, or its one line."""
    tracemalloc.start()
    try:
        found: object = read()
    except UserError as error:
        found = str(error)
        assert "\n" not in found
        assert len(found) < 2000
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MOST_BYTES
    return found


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    images = [jpeg(number) for number in range(12)]
    write_images(folder, train=images, validation=images[:3])
    return folder


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = RunFolder.create(tmp_path_factory.mktemp("run") / "run")
    plan = checkpoint.describe(Epochs(0, make_plan(compose(["exp=exp5"]))))
    content = checkpoint.State(10, {"fc.bias": torch.arange(300.0)}, {"state": {}}, {}, None, plan, {"seed": "0"})
    return checkpoint.save(folder, content, keep=2)


def with_changed(path: Path, content: bytes, read: Callable[[], object]) -> object:
    """What `read` answers while `path` holds `content`."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        return answers(read)
    finally:
        path.write_bytes(before)


@FUZZED
@given(data=st.data())
@pytest.mark.parametrize("name", ["manifest.json", "train-000000.tsv"])
def test_manifests_and_indexes(name: str, shards: Path, data: st.DataObject) -> None:
    path = shards / name
    content = data.draw(mutated(path.read_bytes()))
    found = with_changed(path, content, lambda: read_index(shards, "train"))
    if not isinstance(found, str):  # it was taken: then nothing that is read by it lies outside its shard
        shard_bytes = (shards / "train-000000.tar").stat().st_size
        assert ((found.offset >= 0) & (found.size >= 0) & (found.offset + found.size <= shard_bytes)).all()  # type: ignore[attr-defined]
        assert len(found) == 12  # type: ignore[arg-type]


@FUZZED
@given(data=st.data())
def test_shards(shards: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = shards / "train-000000.tar"
    whole = path.read_bytes()
    content = data.draw(mutated(whole))
    index = read_index(shards, "train")
    found = with_changed(path, content, lambda: staged(shards, tmp_path_factory.mktemp("memory")))
    if not isinstance(found, str):  # what was changed is none of the images
        assert found == [whole[o : o + s] for o, s in zip(index.offset, index.size, strict=True)]


def staged(shards: Path, folder: Path) -> list[bytes]:
    (memory,) = stage([read_index(shards, "train")], OneProcess(), folder=folder)
    return [bytes(memory.image(sample)) for sample in range(len(memory.index))]


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run; every example changes it and puts it back."""
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    save(compose(["exp=exp5"]), path)
    return path


@FUZZED
@given(data=st.data())
def test_configurations(configuration: Path, data: st.DataObject) -> None:
    content = data.draw(mutated(configuration.read_bytes()))
    found = with_changed(configuration, content, lambda: plan_of(configuration))
    assert isinstance(found, str) or found


def plan_of(path: Path) -> object:
    return make_plan(load(path))


@FUZZED
@given(data=st.data())
def test_checkpoints(state: Path, data: st.DataObject) -> None:
    content = data.draw(mutated(state.read_bytes()))
    found = with_changed(state, content, lambda: checkpoint.read(state))
    assert isinstance(found, str | checkpoint.State)


@FUZZED
@given(data=st.data())
def test_a_changed_checkpoint_is_never_taken_for_a_good_one(state: Path, data: st.DataObject) -> None:
    whole = state.read_bytes()
    content = data.draw(mutated(whole).filter(lambda changed: changed != whole))
    found = with_changed(state, content, lambda: checkpoint.sift(RunFolder(state.parent.parent)))
    assert isinstance(found, str), "the only checkpoint is damaged, so there is none to go on from"


@FUZZED
@given(data=st.data())
def test_metrics(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("metrics") / "metrics.jsonl"
    lines = [json.dumps({"update": update, "loss": 2.0, "time_s": 0.1 * update}) for update in range(1, 9)]
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(content)
    found = with_changed(path, data.draw(mutated(content)), lambda: newest_lines(path))
    assert isinstance(found, tuple)
    assert all(isinstance(line["update"], int) for line in found[0])
