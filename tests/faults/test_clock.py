"""The clock jumps in mid-run, for the run's own processes: nothing ends early or late, and no time is negative."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from bench.run_processes import of_script
from pipeline.run_folder import RunFolder
from tests.faults.runs import exit_code, leaves_nothing, send, strike, wait_until
from tests.faults.table import Row, note
from tests.jobs.test_script import script

SOURCE = Path(__file__).with_name("jumping_clock.c")

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to make a clock that jumps")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What makes the clock jump for those who load it."""
    path = tmp_path_factory.mktemp("clock") / "jumping_clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(path), str(SOURCE), "-ldl"], check=True)
    return path


def variables(library: Path, jump: Path) -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "CLOCK_JUMP": str(jump)}


def test_the_clock_that_jumps_is_the_one_of_date_and_bash(library: Path, tmp_path: Path) -> None:
    jump = tmp_path / "jump"
    program = 'before=$SECONDS; date +%s; echo 36000 > "$CLOCK_JUMP"; date +%s; echo $((SECONDS - before))'
    shown = subprocess.run(
        ["bash", "-c", program], env=os.environ | variables(library, jump), capture_output=True, text=True, check=True
    )
    before, after, seconds = map(int, shown.stdout.split())
    assert after - before >= 36000
    assert seconds >= 36000


def test_no_timer_of_a_job_script_goes_off_by_a_jump(library: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    started, jump = tmp_path / "started", tmp_path / "jump"
    path = script(folder, ["bash", "-c", 'touch "$1"; sleep 4; exit 85', "launcher", str(started)])
    with subprocess.Popen(["bash", str(path)], env=os.environ | variables(library, jump)) as process:
        wait_until(started.exists)
        jump.write_text("36000")  # the ranks are not ready yet, and have ten minutes
        assert process.wait(60) == 85
    assert not (folder.attempts / "0" / "hung").exists()


@pytest.mark.long
@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forth"])
def test_a_run_trains_on_and_its_times_are_right(repository: Path, tmp_path: Path, library: Path, jump_s: int) -> None:
    folder, jump = RunFolder(tmp_path / "run"), tmp_path / "jump"

    def strike_and_end() -> None:
        jump.write_text(str(jump_s))
        saved = len(folder.saved_updates())
        wait_until(lambda: len(folder.saved_updates()) > saved or exit_code(folder) is not None)
        send(signal.SIGUSR2, of_script(folder))

    more = ["run.keep_checkpoints=1000", "run.checkpoint_every_minutes=10"]
    struck = strike(repository, folder, strike_and_end, *more, workers=2, variables=variables(library, jump))
    assert exit_code(folder) == 85
    totals = json.loads((folder.attempts / "0" / "totals.json").read_text())
    assert 0 < totals["loop_time_s"] < totals["wall_time_s"] < 600
    lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    times = [line["time_s"] for line in lines]
    assert times == sorted(times)
    assert all(0 < line["update_s"] < 600 for line in lines)
    assert not folder.slow_updates.exists() or "3600" not in folder.slow_updates.read_text()
    leaves_nothing(folder)
    assert struck.done.stderr.count("saving") == 0
    where = "back" if jump_s < 0 else "forth"
    note(Row(f"the clock jumps an hour {where}", "nothing; stamps of records jump with it", None, 0, "goes on"))
