"""The placement: what fits is chosen, what does not is told with its sum, alike on every worker."""

from pathlib import Path

import pytest

from pipeline.data.placement import choose
from pipeline.errors import UserError
from pipeline.evaluate import OneProcess
from tests.pipeline.data.communicators import Threads, in_threads

GB = 10**9
NEEDS = {"replicated": (8 * GB, "7 GB to train on + 1 GB to validate"), "partitioned": (2 * GB, "2 x 1 GB")}


def meminfo(folder: Path, free_bytes: float) -> Path:
    path = folder / f"meminfo-{free_bytes:g}"
    path.write_text(f"MemTotal: 9 kB\nMemAvailable:       {int(free_bytes / 1024)} kB\n")
    return path


@pytest.mark.parametrize(
    ("asked", "free_gb", "nodes", "chosen"),
    [
        ("auto", 10.1, 16, "replicated"),
        ("auto", 9.9, 16, "partitioned"),  # a fifth is to stay free
        ("auto", 10.1, 17, "partitioned"),  # the file system is not to send it so often
        ("auto", 2.1, 2, "partitioned"),
        ("replicated", 8.1, 544, "replicated"),
        ("partitioned", 100, 2, "partitioned"),
    ],
)
def test_auto_replicates_where_memory_and_the_file_system_allow(
    tmp_path: Path, asked: str, free_gb: float, nodes: int, chosen: str
) -> None:
    alone = OneProcess()
    found, line = choose(asked, NEEDS, nodes, alone, alone, folder=tmp_path, meminfo=meminfo(tmp_path, free_gb * GB))
    assert found == chosen
    assert line.startswith(
        f"samples: {chosen}, {NEEDS[chosen][0] // GB} GB a node ({NEEDS[chosen][1]}); {tmp_path} has "
    )


def test_one_node_replicates_whatever_is_asked(tmp_path: Path) -> None:
    alone, needs = OneProcess(), {"replicated": NEEDS["replicated"]}
    for asked in ("auto", "replicated", "partitioned"):
        assert choose(asked, needs, 1, alone, alone, folder=tmp_path, meminfo=tmp_path / "absent")[0] == "replicated"


def test_too_little_is_told_with_the_sum_and_what_would_do(tmp_path: Path) -> None:
    alone, nodes = OneProcess(), 2
    words = r".+: memory has 3 GB free and 8 GB of samples go there \(7 GB to train on \+ 1 GB to validate\); "
    with pytest.raises(UserError, match=f"{words}data.placement=partitioned needs 2 GB$"):
        choose("replicated", NEEDS, nodes, alone, alone, folder=tmp_path, meminfo=meminfo(tmp_path, 3 * GB))
    with pytest.raises(UserError, match=r"1 GB free and 2 GB of .*; take nodes with more memory, or fewer "):
        choose("auto", NEEDS, nodes, alone, alone, folder=tmp_path, meminfo=meminfo(tmp_path, 1 * GB))


def test_the_poorest_node_decides_for_all(tmp_path: Path) -> None:
    def work(world: Threads) -> str:
        mine = meminfo(tmp_path, (100, 9, 50)[world.Get_rank()] * GB)
        return choose("auto", NEEDS, 3, world, OneProcess(), folder=tmp_path, meminfo=mine)[0]

    for free in (100, 9, 50):
        meminfo(tmp_path, free * GB)
    assert in_threads(3, work) == ["partitioned"] * 3
