"""Options of bench.allreduce that cannot be used are told in one line, before anything starts."""

from pathlib import Path

import pytest

from bench import network
from bench.allreduce import best_chunk, chunks, main


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--algorithms", "toros"], "--algorithms toros: no such all-reduce"),
        (["--sizes", "0"], "--sizes 0: sizes in MB are asked for"),
        (["--sizes", "x"], "--sizes x: sizes in MB are asked for"),
        (["--sizes", "-1"], "--sizes -1: sizes in MB are asked for"),
        (["--chunks", "nan"], "--chunks nan: sizes in MB are asked for"),
        (["--grid", "4by4"], "--grid 4by4: VERTICALxHORIZONTAL is asked for"),
        (["--repeats", "0"], "--repeats 0: must be at least 1"),
        (["--rate", "-5"], "--rate -5.0: must be above 0"),
        (["--json", "nowhere/rows.json"], "--json nowhere/rows.json: there is no folder"),
        (["--plot", "time.doc"], "--plot time.doc: a name that ends in .png or .svg"),
    ],
)
def test_an_option_that_cannot_be_used_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([f"{words[0]}={words[1]}"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"error: {line}")


@pytest.mark.parametrize("words", ["--sizes=x", "--algorithms=toros", "--repeats=0", "--plot=time.doc"])
def test_so_it_is_for_the_emulated_hosts(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert network.main([words]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_sweep_tries_fractions_of_the_size_but_no_tiny_ones() -> None:
    assert chunks("torus", 1_000_000, "sweep") == [1_000_000, 500_000, 250_000, 125_000, 83_334, 62_500]
    assert chunks("native", 1_000_000, "sweep") == [1_000_000]
    assert chunks("torus", 1_000_000, "0.5,0.1") == [500_000, 100_000]


def test_of_chunks_that_are_as_good_the_largest_is_taken() -> None:
    assert best_chunk({4: 1.009, 2: 1.0, 1: 0.9999}) == 4
    assert best_chunk({4: 1.02, 2: 1.0, 1: 1.0}) == 2
