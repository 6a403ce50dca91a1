"""The main job through `make`, as a user calls it: real mpirun, real workers, real images."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest
import torch

from pipeline.config import load
from pipeline.data.shard_writer import Sample, write_manifest, write_split
from pipeline.data.shards import read_index
from pipeline.metrics import read_metrics
from pipeline.models import build
from pipeline.run_folder import RunFolder
from tests import of_make
from tests.pipeline.records import assert_complies, mlperf_records, tensorboard_points

EXPERIMENTS = {
    "reference": "2 | 1 x 2 | 3,330", "1": "3 | 1 x 3 | 3,000", "2": "4 | 2 x 2 | 2,250", "3": "5 | 1 x 5 | 1,800",
    "4": "6 | 2 x 3 | 1,530", "5": "4 | 2 x 2 | 2,010", "6": "4 | 2 x 2 | 1,980", "flash": "6 | 2 x 3 | 2,160",
}  # fmt: skip
"""Workers, grid and updates of the scale model, from the table of the papers."""


def environment() -> dict[str, str]:
    """As a shell has it: nothing of the make that runs these tests, whose variables it hands on to all below it."""
    return {name: value for name, value in os.environ.items() if name not in of_make.VARIABLES}


def make(repository: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["make", *words], cwd=repository, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def the_error(done: "subprocess.CompletedProcess[str]") -> str:
    """The one error line of a call that failed, without a traceback."""
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert done.returncode != 0
    assert len(errors) == 1, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert [line for line in lines if not line.startswith(("error: ", "make"))] == []
    return errors[0]


@pytest.fixture(scope="module")
def trained(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, str]:
    """A run of one epoch, and what it printed."""
    path = tmp_path_factory.mktemp("runs") / "first"
    done = make(repository, "train", "EXP=5", f"ARGS=run.stop_after_epochs=1 run.dir={path}")
    assert done.returncode == 0, done.stderr
    return RunFolder(path), done.stdout


def test_it_prints_a_header_progress_a_table_and_the_run_folder_last(trained: tuple[RunFolder, str]) -> None:
    folder, output = trained
    text = " ".join(output.split())
    for part in (
        "exp5: scale model of 2176 GPUs", "2 x 2 (vertical x horizontal)", "16 a worker, 64 in all from epoch 0",
        "56 a worker, 224 in all from epoch 60", "2,010 (1,110 + 570 + 330)", "fp16 on the wire", "ETA",
        "all-reduce: torus on 2 x 2, 1 node;",
        "of 1,000 held-out images", "37 (37 + 0 + 0)", "% of the loop",
    ):  # fmt: skip
        assert part in text, part
    assert output.splitlines()[-1] == f"run folder: {folder.path}"


def test_it_leaves_the_run_folder_of_the_design(trained: tuple[RunFolder, str]) -> None:
    folder, _ = trained
    found = {str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file()}
    found.discard("slow.jsonl")  # of a machine that something else held up
    (events,) = [name for name in found if name.startswith("events/events.out.tfevents.")]
    expected = {
        "config.yaml", "overrides.yaml", "job.sh", "environment.txt", "metrics.jsonl", "result.json", "log/job.log",
        "validations.jsonl", "allreduce.json", "mlperf.log", events,
        *(f"log/rank-{rank}.log" for rank in range(4)), "checkpoints/update-000037.pt",
        "checkpoints/update-000037.pt.sha256", "checkpoints/model.pt",
        "attempts/0/job_id", "attempts/0/ready", "attempts/0/exit", "attempts/0/totals.json",
        "attempts/0/done",
    }  # fmt: skip
    assert found == expected
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert (folder.attempts / "0" / "exit").read_text() == "0\n"
    assert "torch==" in folder.environment.read_text()
    script = (folder.attempts / "0" / "job_id").read_text().strip()
    assert not list(Path("/dev/shm").glob(f"torus224-mpi-*-{script}"))


def test_its_result_has_what_a_report_needs(trained: tuple[RunFolder, str]) -> None:
    result = trained[0].read_result()
    assert result is not None
    exact = {
        "experiment": "exp5", "scale_model": True, "workers": 4, "grid": {"vertical": 2, "horizontal": 2},
        "updates": 37, "updates_by_stage": [37, 0, 0], "complete": False, "images": 37 * 64,
    }  # fmt: skip
    assert {name: result[name] for name in exact} == exact
    assert 0 < result["loop_time_s"] < result["wall_time_s"]
    assert result["images_per_s"] == pytest.approx(37 * 64 / result["loop_time_s"])
    assert 0 < result["communication_share"] < 1
    assert 0 <= result["top1"] <= 100


def test_what_was_found_of_its_nodes_stands_in_the_first_log_and_with_the_hosts_in_its_environment(
    trained: tuple[RunFolder, str],
) -> None:
    folder, output = trained
    log = folder.rank_log(0).read_text().splitlines()
    assert log[0] == "not bound to CPUs: site.binding=none"
    assert re.fullmatch(r"nodes: 1 \(.+\), 4 ranks", log[1])
    assert "way to the first rank: 127.0.0.1" in log
    kept = folder.environment.read_text().rpartition("\nattempt 0, ")[2].splitlines()
    assert set(kept[1:-1]) <= set(log)
    assert kept[-1] == f"hosts {socket.gethostname()}"
    assert "way to the first rank" not in output
    assert not (folder.attempts / "0" / "starting").exists()


def test_a_start_that_takes_too_long_ends_with_where_the_ranks_stand(repository: Path, tmp_path: Path) -> None:
    line = the_error(make(repository, "train", "EXP=5", f"ARGS=run.dir={tmp_path}/run site.start_timeout_s=1"))
    assert line.startswith("error: start-up took longer than 1 s: ")
    assert line.endswith("; site.start_timeout_s allows longer")


def test_its_metrics_have_a_line_an_update(trained: tuple[RunFolder, str]) -> None:
    lines = [json.loads(line) for line in trained[0].metrics.read_text().splitlines()]
    assert [line["update"] for line in lines] == list(range(1, 38))
    assert [line["lr"] for line in lines] == pytest.approx([3.1 * number / 37 / 5 for number in range(37)])
    assert {line["batch"] for line in lines} == {64}
    assert all(0 < line["loss"] < 10 for line in lines)


def test_its_records_for_tensorboard_and_mlperf_say_what_its_metrics_say(trained: tuple[RunFolder, str]) -> None:
    folder, _ = trained
    result = folder.read_result()
    assert result is not None
    (validation,) = read_metrics(folder.validations)
    assert (validation["update"], validation["epoch"], validation["images"]) == (37, 1.0, 1000)
    assert validation["top1"] == result["top1"]
    points = tensorboard_points(folder.events)
    assert points["update/loss"] == pytest.approx({one["update"]: one["loss"] for one in read_metrics(folder.metrics)})
    assert points["validation/top1"] == pytest.approx({37: result["top1"]})
    shares = [points[f"loop_share/{part}"] for part in ("data", "compute", "communication", "other")]
    assert [list(share) for share in shares] == [[10, 20, 30, 37]] * 4  # the agreements
    assert [sum(share[step] for share in shares) for step in shares[0]] == pytest.approx([1, 1, 1, 1])
    assert_complies(folder.mlperf_log)
    (run_stop,) = [record for record in mlperf_records(folder.mlperf_log) if record["key"] == "run_stop"]
    assert run_stop["metadata"]["status"] == "aborted"
    assert run_stop["metadata"]["scale"] == "scale model of 2176 GPUs"


def test_plain_torch_load_opens_its_checkpoints_with_torchvisions_names(trained: tuple[RunFolder, str]) -> None:
    folder, _ = trained
    state = torch.load(folder.checkpoint(37), weights_only=True)
    weights = torch.load(folder.model, weights_only=True)
    assert {
        "conv1.weight",
        "bn1.running_mean",
        "layer1.0.bn3.weight",
        "layer2.0.downsample.0.weight",
        "fc.bias",
    } <= set(weights)
    assert all(torch.equal(weights[name], state["model"][name]) for name in weights)
    build(load(folder.config).model).load_state_dict(weights)
    assert weights["conv1.weight"].abs().sum() > 0


def test_evaluate_gives_the_same_top1_again(repository: Path, trained: tuple[RunFolder, str]) -> None:
    folder, _ = trained
    done = make(repository, "evaluate", f"RUN={folder.path}")
    result = folder.read_result()
    assert result is not None
    assert f"top-1 {result['top1']:.2f} % of 1,000 held-out images after 37 of 2,010 updates" in done.stdout
    folder.evaluations.unlink()


def test_plot_draws_the_run(repository: Path, trained: tuple[RunFolder, str]) -> None:
    folder, _ = trained
    done = make(repository, "plot", f"RUN={folder.path}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(folder.plots / "training.svg"), str(folder.plots / "training.png")]
    shutil.rmtree(folder.plots)
    assert "name the run: make plot RUN=" in the_error(make(repository, "plot"))


def test_a_run_saved_on_request_goes_on_where_it_stopped(repository: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    words = ["make", "train", "EXP=5", "WORKERS=1", f"ARGS=run.dir={path} run.stop_after_epochs=30 optim.lr=2.0"]
    with subprocess.Popen(words, cwd=repository, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        folder = RunFolder(path)
        for _ in range(600):
            if folder.metrics.exists() and folder.metrics.stat().st_size:
                break
            time.sleep(0.1)
        os.kill(int((folder.attempts / "0" / "job_id").read_text()), signal.SIGUSR2)
        output, _ = process.communicate(timeout=60)
    assert f"go on with: make train RESUME={path}" in output
    assert process.returncode != 0
    assert (folder.attempts / "0" / "exit").read_text() == "85\n"
    assert not folder.result.exists()
    (saved,) = folder.saved_updates()
    assert saved % 10 == 0 or saved % 37 == 0  # an agreement: every 10 updates, and the end of an epoch

    done = make(repository, "train", f"RESUME={path}", f"ARGS=run.stop_after_updates={saved + 5}")
    assert done.returncode == 0, done.stderr
    assert f"going on after update {saved} of 2010" in done.stdout
    lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert [line["update"] for line in lines] == list(range(1, saved + 6))
    assert load(folder.config).optim.lr == 2.0
    result = folder.read_result()
    assert result is not None
    assert result["images"] == 64 * (saved + 5)
    assert list(tensorboard_points(folder.events)["update/loss"]) == list(range(1, saved + 6))
    assert_complies(folder.mlperf_log)
    assert (folder.attempts / "1" / "exit").read_text() == "0\n"

    refused = make(repository, "train", f"RESUME={path}", "ARGS=optim.lr=1.0")
    assert "optim.lr was 2.0" in the_error(refused)
    refused = make(repository, "train", "EXP=6", f"RESUME={path}")
    assert "experiment was exp5" in the_error(refused)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_through_make(repository: Path, name: str) -> None:
    done = make(repository, "render", f"EXP={name}")
    assert done.returncode == 0, done.stderr
    text = re.sub(r"[│┃|]", " ", done.stdout)
    workers, grid, updates = EXPERIMENTS[name].split(" | ")
    assert re.search(rf"workers +{workers} ", text)
    assert re.search(rf"grid +{grid} \(", text)
    assert re.search(rf"updates +{updates} ", text)


ONE_LINE = {
    "a typo in a key": ("ARGS=optim.lrr=2", "unknown key optim.lrr; did you mean optim.lr?"),
    "no such experiment": ("EXP=7", "exp=exp7: no such choice; did you mean exp6?"),
    "a wrong grid": ("ARGS=workers=4 grid.vertical=2 grid.horizontal=3", "workers=4 asks for 4, grid 2x3 asks for 6"),
    "workers that cannot": ("WORKERS=3", "3 workers can neither divide nor be divided by the recipe's 4"),
    "a missing data folder": ("ARGS=data.path=/no/such/folder", "data.path /no/such/folder: no such folder"),
    "a run folder that is none": ("RESUME=/no/such/run", "/no/such/run: no such run folder"),
}


@pytest.mark.parametrize("case", ONE_LINE)
def test_a_mistake_gives_its_one_line(repository: Path, tmp_path: Path, case: str) -> None:
    word, expected = ONE_LINE[case]
    words = [f"{word} run.dir={tmp_path}/run" if word.startswith("ARGS=") else word]
    assert expected in the_error(make(repository, "train", *words))


def test_a_truncated_jpeg_gives_its_one_line(repository: Path, sample: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    copy_sample(sample, data, truncated=77)
    done = make(
        repository, "train", "EXP=5", f"ARGS=workers=1 data.path={data} run.dir={tmp_path}/run data.train_samples=640"
    )
    assert re.search(r"rank \d: sample train-7-0007 in .*/train-000000.tar cannot be decoded", the_error(done))
    assert RunFolder(tmp_path / "run").read_result() is None


def copy_sample(sample: Path, folder: Path, *, truncated: int) -> None:
    """The sample with one training image cut short."""
    folder.mkdir()
    splits = {}
    for split in ("train", "validation"):
        index = read_index(sample, split)
        shards = [(sample / name).read_bytes() for name in index.shards]
        images = [shards[index.shard[i]][index.offset[i] : index.offset[i] + index.size[i]] for i in range(len(index))]
        if split == "train":
            images[truncated] = images[truncated][:300]
        samples = [Sample(index.key(i), image, int(index.label[i]), 28, 28) for i, image in enumerate(images)]
        splits[split] = write_split(folder, split, samples, samples_per_shard=1000)
    write_manifest(folder, name="damaged", classes=10, splits=splits)


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()}


def processes(folder: RunFolder) -> list[int]:
    """Every process of a run: its script, mpirun and the ranks name its folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode().split("\0")
            if any(word.startswith(str(folder.path)) for word in words) and not words[0].endswith("make"):
                found.append(int(path.parent.name))
    return found


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL, then the next run"])
def test_nothing_stays_in_shared_memory(repository: Path, tmp_path: Path, number: signal.Signals) -> None:
    before = shared_memory()
    folder = RunFolder(tmp_path / "run")
    words = ["make", "train", "EXP=5", "WORKERS=2", f"ARGS=run.dir={folder.path}"]
    with subprocess.Popen(words, cwd=repository, env=environment(), stderr=subprocess.DEVNULL) as process:
        for _ in range(600):
            if folder.metrics.exists() and folder.metrics.stat().st_size:
                break
            time.sleep(0.1)
        assert shared_memory() - before, "a running job has its segments"
        if number == signal.SIGTERM:
            os.kill(int((folder.attempts / "0" / "job_id").read_text()), number)
        else:
            for pid in processes(folder):
                os.kill(pid, number)
        assert process.wait(30) != 0
    for _ in range(100):
        if not processes(folder):
            break
        time.sleep(0.1)
    assert processes(folder) == []
    if number == signal.SIGKILL:
        words = [f"RESUME={folder.path}", "ARGS=run.stop_after_updates=1"]
        assert make(repository, "train", *words).returncode == 0
    assert shared_memory() <= before


def test_a_sweep_is_a_run_folder_each_a_table_and_the_worst_code(repository: Path) -> None:
    done = make(repository, "sweep", "EXP=reference,1", "ARGS=workers=2 run.stop_after_updates=2")
    text = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert "2 workers can neither divide nor be divided by the recipe's 3" in done.stderr
    (folder,) = [RunFolder(repository / name) for name in re.findall(r"run folder: (runs/\S+-reference\S*)", text)]
    result = folder.read_result()
    assert result is not None
    assert (result["experiment"], result["updates"]) == ("reference", 2)
    assert "comm %" in text
    remove(folder)


@pytest.mark.long
def test_a_world_that_is_not_the_grids_stops_at_once(
    repository: Path, trained: tuple[RunFolder, str], tmp_path: Path
) -> None:
    folder, _ = trained
    command = [str(repository / ".venv/bin/python"), "-m", "pipeline.train", str(folder.path)]
    alone = environment() | {"OMPI_MCA_btl_sm_backing_directory": str(tmp_path)}  # no script cleans up here
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=60, check=False, env=alone)
    assert done.returncode == 1
    assert "1 processes were started and the grid 2x2 needs 4" in folder.rank_log(0).read_text()


def remove(folder: RunFolder) -> None:
    shutil.rmtree(folder.path)
