"""`make study`: what it plans, that it goes on where it was broken off, its rule of calibration, its results."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import command_line, compose, environment, local, study, study_calibration, study_sample
from jobs.study_runs import run_one, with_seeds
from pipeline.config import load, make_plan
from pipeline.errors import UserError
from pipeline.run_folder import EXIT_DONE, EXIT_SAVED, RunFolder
from tests.jobs.report_runs import finish
from tests.jobs.runs import add_attempt

TOP1 = {
    # The reference is at 90 with seed 0, and so on; the differences of exp5 are Student's sleep data, first five pairs.
    "reference": {0: 90.7, 1: 88.4, 2: 89.8, 3: 88.8, 4: 89.9},
    "exp5": {0: 91.9, 1: 90.8, 2: 91.1, 3: 90.1, 4: 89.9},
    "exp6": {0: 88.7, 1: 86.4, 2: 87.8, 3: 86.8, 4: 87.9},
}


ENVIRONMENT = """\
host a-name-of-nobody's-business
system Linux
processor A CPU, 2 cores
python 3.11.9
commit 0123abc

numpy==2.4.6
torch==2.14.1
zipp==1.0
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: Path) -> Path:
    """An empty folder to run a study in; its sample is the ordinary one, at the study's path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study_sample, "write_once", lambda _: None)
    monkeypatch.setattr(study, "check_words", lambda _: None)  # so that a test may name the sample
    monkeypatch.setattr(environment, "describe", lambda _: ENVIRONMENT)
    return sample


def ran(top1: Callable[[str, int], float], seen: list[str]) -> Callable[..., int]:
    """In place of a run on this machine: its result, as `top1` has it by experiment and seed."""

    def run(folder: RunFolder, *, shown: bool = True) -> int:
        assert not shown
        config = load(folder.config)
        seen.append(folder.path.name)
        finish(folder, make_plan(config), top1=top1(config.experiment, config.seed), wall_time_s=100.0)
        os.utime(folder.result, (20_000 * 86_400, 20_000 * 86_400))
        return EXIT_DONE

    return run


def of_top1(experiment: str, seed: int) -> float:
    return TOP1[experiment][seed]


def ask(here: Path, *words: str, experiments: str = "reference,exp5") -> int:
    return command_line.run(study.main, ["--experiments", experiments, f"data.path={here}", *words])


def test_the_reference_and_exp1_to_6_have_five_paired_seeds_and_all_others_two() -> None:
    names = study.experiments(None)
    runs = study.plan(["reference", "exp6", "flash"], Path("runs/study"), [])
    assert [f"{one.config.experiment} {one.config.seed}" for one in runs] == [
        "reference 0", "exp6 0", "flash 0", "reference 1", "exp6 1", "flash 1",
        "reference 2", "exp6 2", "reference 3", "exp6 3", "reference 4", "exp6 4",
    ]  # fmt: skip
    assert [name for name in names if name in study.PAIRED] == list(study.PAIRED)
    assert {"flash", *study.PAIRED} <= set(names)
    assert study.experiments("5, 2,reference") == ["reference", "exp2", "exp5"]
    assert "scaling" not in names
    assert {one.config.data.path for one in runs} == {compose.compose(["data=study"]).data.path}
    assert not set(study_calibration.SEEDS) & {*study.PAIRED_SEEDS, *study.OTHER_SEEDS}


def test_every_run_trains_on_less_than_the_studys_sample_holds_to_train_on() -> None:
    largest = max(make_plan(one.config).samples for one in study.plan(study.experiments(None), Path("runs/study"), []))
    assert largest <= 10 * study_sample.TRAIN_PER_CLASS


def test_it_says_how_long_runs_what_is_not_done_and_goes_on_with_what_was_broken_off(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    whole = ran(of_top1, seen)

    def stopped(folder: RunFolder, *, shown: bool = True) -> int:
        if len(seen) == 3:  # Ctrl-C
            add_attempt(folder, "4711", EXIT_SAVED)
            return EXIT_SAVED
        return whole(folder, shown=shown)

    monkeypatch.setattr(local, "run", stopped)
    assert ask(here) == EXIT_SAVED
    said = capsys.readouterr().out
    assert "study: 10 runs, 0 done; the others take about 0:20:00 (at 120 s a run" in said
    assert "1 of 10: reference, seed 0: top-1 90.70 %, 100 s, 0:15:00 left" in said  # 9 x 100 s
    assert "go on with: make study" in said
    assert not Path("docs").exists()
    broken_off = RunFolder("runs/study/exp5-seed-1")
    assert broken_off.config.is_file()
    monkeypatch.setattr(local, "run", whole)
    (Path("runs/study/exp5-seed-3") / "log").mkdir(parents=True)  # broken off before its script was there
    assert ask(here) == EXIT_DONE
    assert seen[:5] == ["reference-seed-0", "exp5-seed-0", "reference-seed-1", "exp5-seed-1", "reference-seed-2"]
    assert len(seen) == len(set(seen)) == 10
    assert "study: 10 runs, 3 done; the others take about 0:11:40 (as those that are done)" in capsys.readouterr().out
    assert ask(here) == EXIT_DONE
    assert len(seen) == 10  # nothing is run twice


def test_results_have_paired_differences_with_their_interval_curves_machine_date_and_versions(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "run", ran(of_top1, []))
    assert ask(here, experiments="reference,exp5,exp6") == EXIT_DONE
    output = Path("docs/results")
    assert {path.name for path in output.iterdir()} == {
        "study.md",
        "study.json",
        "curves.csv",
        "study.svg",
        "study.png",
    }
    found = json.loads((output / "study.json").read_text())
    assert (found["runs"], found["runs_planned"]) == (15, 15)
    assert (found["machine"], found["commit"]) == ("A CPU, 2 cores", "0123abc")
    assert found["date"] == "2024-10-04"  # the 20,000th day
    assert found["versions"] == {"python": "3.11.9", "torch": "2.14.1", "numpy": "2.4.6"}
    fifth, sixth = found["experiments"]["exp5"], found["experiments"]["exp6"]
    # 1.2, 2.4, 1.3, 1.3, 0.0: mean 1.24, s = sqrt(2.892 / 4) = 0.850294, half width 2.776445 x s / sqrt(5) = 1.05578.
    assert (fifth["to_reference"], fifth["pairs"]) == (1.24, 5)
    assert fifth["interval"] == [pytest.approx(0.18422, abs=1e-4), pytest.approx(2.29578, abs=1e-4)]
    assert (sixth["to_reference"], sixth["interval"]) == (-2.0, [-2.0, -2.0])
    assert found["experiments"]["reference"]["to_reference"] is None
    assert fifth["batches"] == [64, 128, 224]
    text = (output / "study.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| Exp. 5")]
    for part in ("90.76 %", "+1.24", "+0.18 to +2.30", "above the reference", "121,856"):
        assert part in row, part
    assert "below the reference" in text
    rows = list(csv.DictReader((output / "curves.csv").open()))
    assert {row["experiment"] for row in rows} == {"reference", "exp5", "exp6"}
    assert len(rows) == 3 * 90
    assert (output / "curves.csv").stat().st_size < 100_000
    assert str(here.parent) not in "".join(
        path.read_text() for path in output.glob("*.*[dnv]") if path.suffix != ".png"
    )
    assert "docs/results/study.md" in capsys.readouterr().out


def test_with_report_it_tells_what_there_is(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "run", ran(of_top1, []))
    assert ask(here, "--report") == 1
    assert "none of the study's runs is done yet" in capsys.readouterr().err
    for one in study.plan(["reference"], study.TOP, [f"data.path={here}"])[:2]:
        run_one(one)
    assert ask(here, "--report", "--output", "elsewhere") == EXIT_DONE
    assert "2 of 10 runs are done" in capsys.readouterr().out
    assert json.loads(Path("elsewhere/study.json").read_text())["runs"] == 2
    damaged = RunFolder(study.TOP / "reference-seed-1").result
    damaged.write_text(json.dumps(json.loads(damaged.read_text()) | {"top1": float("nan")}))
    assert ask(here, "--report", "--output", "elsewhere") == EXIT_DONE
    assert "left out: runs/study/reference-seed-1: result.json: top1 is nan" in capsys.readouterr().out
    assert json.loads(Path("elsewhere/study.json").read_text())["runs"] == 1


def test_a_run_that_fails_does_not_end_the_study(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    whole = ran(of_top1, seen)

    def failing(folder: RunFolder, *, shown: bool = True) -> int:
        if folder.path.name == "exp5-seed-2":
            raise UserError("rank 1 was killed")
        return whole(folder, shown=shown)

    monkeypatch.setattr(local, "run", failing)
    assert ask(here) == 1
    told = capsys.readouterr()
    assert "error: exp5, seed 2: rank 1 was killed" in told.err
    assert len(seen) == 9
    assert "make study ARGS=--report" in told.out


def test_a_folder_of_another_recipe_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "run", ran(of_top1, []))
    (one,) = with_seeds("exp6", [3], [f"data.path={here}", "optim.lr=2.0"], {3: study.TOP / "exp6-seed-3"})
    run_one(one)
    assert ask(here, experiments="exp6") == 1
    assert "runs/study/exp6-seed-3 was made with optim.lr=2.0, and it is 3.1 now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["exp=exp5"], "exp=exp5: make study sets that itself"),
        (["--experiments", "exp7"], "--experiments: conf/exp/ has no exp7"),
        (["optim.lrr=1"], "unknown key optim.lrr"),
        (["--report", "--runs", "/nowhere"], "--runs /nowhere: no such folder"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(study.main, words) == 1
    assert line in capsys.readouterr().err


def test_calibration_takes_the_first_level_at_which_the_reference_is_from_85_to_95(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written: list[str] = []
    monkeypatch.setattr(study_sample, "write_once", written.append)
    monkeypatch.setattr("jobs.prepare.check_data", lambda _: None)
    top1 = {0: (97.0, 97.4), 40: (96.0, 94.4), 80: (95.4, 94.4), 120: (90.0, 90.0)}

    def run(folder: RunFolder, *, shown: bool = True) -> int:  # noqa: ARG001 - as jobs.local.run
        config = load(folder.config)
        level = study_sample.level_of(str(Path(config.data.path).relative_to(compose.REPOSITORY)))
        assert config.experiment == "reference"
        finish(folder, make_plan(config), top1=top1[level][config.seed - 100])
        return EXIT_DONE

    monkeypatch.setattr(local, "run", run)
    assert command_line.run(study.main, ["--calibrate"]) == EXIT_DONE
    said = capsys.readouterr().out
    assert written == ["data/study-noise-0", "data/study-noise-40", "data/study-noise-80"]
    assert "noise 40: top-1 95.20 %" in said
    assert "noise 80 it is: the first in 85 to 95 %" in said
    assert Path("runs/study-calibration/noise-80/seed-101").is_dir()
    monkeypatch.setattr(study_calibration, "LEVELS", (0,))
    assert command_line.run(study.main, ["--calibrate"]) == 1
    assert "no noise of 0 brings top-1 into 85 to 95 %" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path", ["data/sample", "data/study-noise-", "/data/study-noise-80", "data/study-noise-8/../x"]
)
def test_only_a_folder_of_a_level_is_written(path: str) -> None:
    with pytest.raises(UserError, match="must name data/study-noise-80, or another number"):
        study_sample.write_once(path)


@pytest.mark.long
def test_short_runs_make_a_study_from_its_sample_to_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["recipe.epochs=2", "optim.warmup_epochs=1", "--experiments", "reference"]
    assert command_line.run(study.main, words) == EXIT_DONE
    assert "5 of 5: reference, seed 4: top-1 " in capfd.readouterr().out
    result = RunFolder("runs/study/reference-seed-0").read_result()
    assert result is not None
    assert (result["validation_images"], result["updates"]) == (2490, 74)
