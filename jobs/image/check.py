"""Try an image before jobs depend on it: `python -m jobs.image.check` (make image-test). Torch-free.

A line a check, as `make doctor` has them: what is in the archive, the SIF's own %test, and ranks by the host's mpirun
and by the image's, with and without the host's environment. Where torch is in the image, the scale model trains in both
ways.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs import local, prepare
from jobs.command_line import Parser, run
from jobs.compose import REPOSITORY, compose
from jobs.container import rank_program
from jobs.doctor.finding import Finding, judge
from jobs.image.build import BUILD
from jobs.image.contents import faults, read
from jobs.image.programs import find_runner, first_line_of
from jobs.image.registries import known_here
from jobs.job import Job, make_job
from jobs.launch import python
from pipeline.errors import UserError
from pipeline.metrics import read_metrics
from pipeline.run_folder import EXIT_DONE, EXIT_FAILED, RunFolder

RANKS = 4
START_S = 300
"""A cold image and a busy machine; where MPIs do not meet, a start may hang."""

TRAIN_S = 900

UPDATES = 40
"""Of the scale model: a little over an epoch of Exp. 5."""

LAPTOP = (
    "scale=544", f"workers={RANKS}", f"site.workers_per_node={RANKS}", "site.device=cpu", "site.backend=gloo",
    "site.binding=none", "site.gpus_per_node=null", "model=small_resnet", "data=sample", "precision.compute=fp32",
)  # fmt: skip
"""A cluster's site as the scale model of this machine has it."""


STEP = re.compile(r"^.*?/bin/(ba)?sh (-\w+ (pipefail )?)*(#\(nop\) )?")
"""What stands before a layer's step: arguments, and the shell."""


@dataclass(frozen=True)
class Image:
    """An image under test."""

    sif: Path
    runner: str
    mpirun: str
    """The host's."""


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="make image-test", description=__doc__)
    parser.add_argument("--sif", type=Path, help="default: what make sif left")
    parser.add_argument("--small", action="store_true", help="of the small image")
    parser.add_argument("--runner", default="", help="apptainer or singularity; default: the first on PATH")
    parser.add_argument("--mpirun", default=str(Path(sys.executable).with_name("mpirun")), help="the host's launcher")
    options = parser.parse_args(arguments)
    name = "torus224-small" if options.small else "torus224"
    sif = (options.sif or BUILD / f"{name}.sif").absolute()
    archive = BUILD / f"{name}.tar"
    if not sif.exists():
        raise UserError(f"{sif}: no such image; `make sif` makes one")
    findings = [] if options.sif or not archive.exists() else [look(archive)]
    show(findings)
    findings += check(Image(sif, find_runner(options.runner), options.mpirun))
    return EXIT_FAILED if any(finding.level == "FAIL" for finding in findings) else EXIT_DONE


def look(archive: Path) -> Finding:
    """What is in the archive, layer by layer, and what must not be."""
    contents = read(archive)
    known = known_here()
    wrong = faults(contents, [str(folder) for folder in known.folders])
    table = [f"{layer.size_bytes / 1e6:8.1f} MB  {STEP.sub('', layer.made_by)[:90]}" for layer in contents.layers]
    found = "; ".join(wrong) or f"{contents.size_bytes / 1e9:.2f} GB in {len(contents.files):,} files"
    finding = judge("contents", not wrong, found, "no compiler, cache, secret or log", "see the Dockerfile")
    return Finding(finding.what, finding.level, finding.found, finding.needed, finding.mend, table)


def check(image: Image) -> list[Finding]:
    """All checks of a SIF, each shown as it is made."""
    findings: list[Finding] = []
    for made in (
        lambda: own_test(image),
        lambda: ranks_of_the_host(image, clean_env=False),
        lambda: ranks_of_the_host(image, clean_env=True),
        lambda: ranks_of_the_image(image),
    ):
        findings.append(made())
        show(findings[-1:])
    if "torch: left out" not in findings[0].found:
        for made in (lambda: trains_by_the_host(image), lambda: trains_by_the_image(image)):
            findings.append(made())
            show(findings[-1:])
    return findings


def show(findings: Sequence[Finding]) -> None:
    """Print findings."""
    for finding in findings:
        print(finding, flush=True)


def own_test(image: Image) -> Finding:
    """The SIF's %test."""
    done = call([image.runner, "test", str(image.sif)], START_S)
    told = ", ".join(done.stdout.split("\n"))
    return judge("%test", not done.returncode, f"{told}{done.stderr if done.returncode else ''}".strip(", "), "", "")


def ranks_of_the_host(image: Image, *, clean_env: bool) -> Finding:
    """Ranks that the host's mpirun starts, each in an exec of its own, as a job has them."""
    with tempfile.TemporaryDirectory(prefix="torus224-image-test-") as folder:
        job = job_of(image, RunFolder(folder), clean_env=clean_env)
        done = start(image, job, ["python3", "-m", "jobs.image.rank", str(RANKS)])
    what = f"{RANKS} ranks by the host's mpirun{', --cleanenv' if clean_env else ''}"
    return judge_ranks(what, done, first_line_of([image.mpirun, "--version"]))


def ranks_of_the_image(image: Image) -> Finding:
    """Ranks that the image's own mpirun starts, all in one exec."""
    command = ["mpirun", "-n", str(RANKS), "--oversubscribe", "--bind-to", "none", "--mca", "osc", "^ucx", "python3"]
    inside = [image.runner, "exec", "--no-home", "--bind", str(REPOSITORY), "--pwd", str(REPOSITORY), str(image.sif)]
    done = call([*inside, *command, "-m", "jobs.image.rank", str(RANKS)], START_S)
    return judge_ranks(f"{RANKS} ranks by the image's mpirun", done, "its own mpirun")


def trains_by_the_host(image: Image) -> Finding:
    """The scale model, its ranks started by the host's mpirun."""
    with tempfile.TemporaryDirectory(prefix="torus224-image-test-") as path:
        words = ["exp=exp5", *_of_the_image(image), f"run.dir={path}/run", f"run.stop_after_updates={UPDATES}"]
        config = compose(words)
        folder = prepare.create(config, words)
        (folder.attempts / "0").mkdir(parents=True, exist_ok=True)
        job = make_job(config, folder, REPOSITORY)
        done = start(image, job, python(job), TRAIN_S)
        return _judge_training("trains by the host's mpirun", folder, done)


def trains_by_the_image(image: Image) -> Finding:
    """The scale model as `make train` has it, all in one exec of the image."""
    with tempfile.TemporaryDirectory(prefix="torus224-image-test-") as path:
        folder = RunFolder(f"{path}/run")
        words = ["exp=exp5", "site=local", f"run.dir={folder.path}", f"run.stop_after_updates={UPDATES}"]
        inside = [image.runner, "exec", "--no-home", "--bind", f"{REPOSITORY},{path}", "--pwd", str(REPOSITORY)]
        done = call([*inside, str(image.sif), "python3", "-m", "jobs.submit", *words], TRAIN_S)
        return _judge_training("trains by the image's mpirun", folder, done)


def job_of(image: Image, folder: RunFolder, *, clean_env: bool = False) -> Job:
    """A job of the scale model whose ranks run in the image."""
    config = compose(["exp=exp5", *_of_the_image(image), f"container.clean_env={str(clean_env).lower()}"])
    prepare.locate_data(config)
    return make_job(config, folder, REPOSITORY)


def start(
    image: Image, job: Job, command: Sequence[str], timeout_s: float = START_S
) -> "subprocess.CompletedProcess[str]":
    """Start the job's ranks by the host's mpirun, on this machine, each as `command` in the image."""
    with tempfile.TemporaryDirectory(prefix="torus224-image-test-") as folder:
        program = Path(folder) / "rank"
        program.write_text(rank_program(job, command, ["PYTHONPATH", "PYTHONNOUSERSITE", "OMP_NUM_THREADS"]))
        words = [image.mpirun, "-n", str(RANKS), "--oversubscribe", "--bind-to", "none", "--mca", "osc", "^ucx"]
        return call([*words, "bash", str(program)], timeout_s)


def _of_the_image(image: Image) -> list[str]:
    return ["site=slurm", *LAPTOP, f"container={image.runner}", f"container.image={image.sif}"]


def call(command: Sequence[str], timeout_s: float) -> "subprocess.CompletedProcess[str]":
    """Run a command without a job's or an MPI's variables; one that takes too long is ended, which its code tells."""
    own = {"PYTHONPATH": str(REPOSITORY), "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1"}
    own["TORUS224_WORLD_SIZE"] = str(RANKS)
    try:
        return subprocess.run(
            command,
            env=local.environment() | own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end within {timeout_s:g} s")
    except OSError as error:
        raise UserError(f"{command[0]} cannot be run: {error.strerror}") from None


def judge_ranks(what: str, done: "subprocess.CompletedProcess[str]", launcher: str) -> Finding:
    """Whether all ranks met in one world."""
    told = sorted(re.findall(r"rank (\d+ of \d+), (.+?);", done.stdout))  # a launcher may mix the ends of lines
    met = [place for place, _ in told] == [f"{rank} of {RANKS}" for rank in range(RANKS)]
    if met and not done.returncode:
        return Finding(what, "ok", f"{launcher}; {told[0][1]}; one world")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return Finding(what, "FAIL", next(iter(errors), f"{' '.join(done.stderr.split())[:300]}"), f"one world of {RANKS}")


def _judge_training(what: str, folder: RunFolder, done: "subprocess.CompletedProcess[str]") -> Finding:
    """Whether a run came to its end."""
    result = folder.read_result()
    if done.returncode or result is None:
        said = folder.errors() or [" ".join(done.stderr.split())[:300]]
        return Finding(what, "FAIL", said[0], f"{UPDATES} updates of {RANKS} workers")
    loss = read_metrics(folder.metrics)[-1]["loss"]  # the same in both ways: same seed, same bits
    return Finding(what, "ok", f"{result['workers']} workers, {result['updates']} updates, loss {loss:.6f} at the last")


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
