"""A start that hangs is told by the ranks that the others wait for."""

from pathlib import Path

from pipeline.run_folder import RunFolder, write_error
from pipeline.starting import STAGES, Starting, hung

MPIRUN = {"OMPI_COMM_WORLD_SIZE": "8"}


def stand(attempt: Path, ranks: range, stage: str, world_size: int = 8) -> None:
    for rank in ranks:
        Starting(attempt, rank, {"OMPI_COMM_WORLD_SIZE": str(world_size)}).note(stage)


def name_hosts(attempt: Path, ranks_per_node: int) -> None:
    """Lets notes come from nodes node0, node1, …"""
    for path in (attempt / "starting").iterdir():
        host = f"node{int(path.name.removeprefix('rank-')) // ranks_per_node}"
        path.write_text(f'{{"host": "{host}", "stage": "{path.read_text().split(chr(34))[7]}", "world_size": 8}}')


def test_who_stands_at_the_earliest_stage_comes_first_then_who_never_began(tmp_path: Path) -> None:
    stand(tmp_path, range(3), "comparing nodes")
    stand(tmp_path, range(3, 5), "starting MPI")
    name_hosts(tmp_path, 2)
    (tmp_path / "hung").write_text("600\n")
    assert hung(tmp_path) == (
        "start-up took longer than 600 s: ranks 3-4 on node1, node2 stand at starting MPI; "
        "ranks 0-2 on node0, node1 stand at comparing nodes; ranks 5-7 never began; site.start_timeout_s allows longer"
    )


def test_of_thousands_of_ranks_a_few_are_named(tmp_path: Path) -> None:
    for rank in range(0, 2000, 2):
        Starting(tmp_path, rank, {"TORUS224_WORLD_SIZE": "2000"}).note(STAGES[0])
    (tmp_path / "hung").write_text("60\n")
    assert "ranks 0, 2, 4, 6 and 996 more on " in hung(tmp_path)
    assert "ranks 1, 3, 5, 7 and 996 more never began" in hung(tmp_path)


def test_nothing_that_began_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "hung").write_text("600\n")
    assert hung(tmp_path) == ("start-up took longer than 600 s: no rank began; site.start_timeout_s allows longer")


def test_a_start_that_did_not_hang_has_no_line(tmp_path: Path) -> None:
    stand(tmp_path, range(8), "starting MPI")
    assert hung(tmp_path) == ""
    assert hung(None) == ""


def test_a_rank_that_has_started_leaves_no_note(tmp_path: Path) -> None:
    notes = [Starting(tmp_path, rank, MPIRUN) for rank in range(2)]
    for note in notes:
        note.note("starting MPI")
    notes[0].end()
    assert [path.name for path in (tmp_path / "starting").iterdir()] == ["rank-1"]
    notes[1].end()
    assert list(tmp_path.iterdir()) == []


def test_a_note_that_cannot_be_written_does_not_end_a_run(tmp_path: Path) -> None:
    note = Starting(tmp_path / "absent", 0, MPIRUN)
    note.note("starting MPI")
    note.end()
    Starting(None, 0, MPIRUN).note("starting MPI")


def test_a_run_that_hung_fails_with_the_line_unless_a_rank_knew_why(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    attempt = folder.attempts / "0"
    attempt.mkdir()
    (attempt / "hung").write_text("600\n")
    write_error(attempt, 1, "the store does not answer", "effect")
    assert folder.errors()[0].startswith("start-up took longer than 600 s: no rank began")
    write_error(attempt, 2, "no GPU", "mistake")
    assert folder.errors()[0] == "no GPU"
