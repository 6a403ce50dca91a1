"""Sites that no job could be made of, each refused in one line that says what would be right."""

import pytest

from jobs.compose import compose
from pipeline.config import check
from pipeline.config.site_checks import is_ours
from pipeline.errors import UserError

REFUSED = {
    "site.scheduler=slrum": "site.scheduler=slrum: no such choice, did you mean slurm?",
    "site.launcher=mpiexec": "site.launcher=mpiexec: no such choice",
    "site.binding=socket": "site.binding=socket: no such choice; there are none, numa, core",
    "site.requeue.how=again": "site.requeue.how=again: no such choice.*; there are in_job, chain",
    "site.requeue.max=-1": "site.requeue.max=-1: must be at least 0",
    "site.requeue.lead_s=3600": "site.requeue.lead_s=3600: ranks would be asked to save before they start",
    "site.wall_time=0": "site.wall_time=0: must be above 0",
    "site.workers_per_node=null": "site.workers_per_node is null; a job needs the number of GPUs",
    "site.queue='a b'": "site.queue='a b': a scheduler takes letters, digits",
    "site.account=-x": "site.account=-x: a scheduler takes letters",
    "site.account_option=P": "site.account_option=P: an option, as -P or --account",
    "site.extra_directives=[constraint]": r"site.extra_directives\[0\]=constraint: one option of the scheduler",
    "site.require=[A-B]": r"site.require\[0\]: A-B is no name of a variable",
    "+site.environment.MY_TOKEN=1": "site.environment.MY_TOKEN looks like a secret",
    "+site.environment.SLURM_NTASKS=1": "site.environment.SLURM_NTASKS: launchers and the job script set it",
    "site.limits.nodes=0": "site.limits.nodes=0: must be at least 1",
    "container=docker": "container.image has no value; give it by IMAGE=",
    "container.name=podman": "container.name=podman: no such choice; there are none, apptainer, singularity, docker",
}


@pytest.mark.parametrize("word", REFUSED)
def test_a_mistake_is_told_in_one_line(word: str) -> None:
    with pytest.raises(UserError, match=REFUSED[word]):
        compose(["exp=exp5", "site=slurm", "data.path=/d", "nodes=2", word])


def test_srun_is_slurms() -> None:
    with pytest.raises(UserError, match=r"site.launcher=srun needs site.scheduler=slurm, and it is pbs"):
        compose(["exp=exp5", "site=pbs", "data.path=/d", "nodes=2", "site.launcher=srun"])


def test_this_machine_has_no_image_and_no_chain() -> None:
    for word in ("container=apptainer", "site.requeue.how=chain"):
        with pytest.raises(UserError, match=r"site=local|no scheduler here"):
            compose(["exp=exp5", "site=local", word, *(["container.image=/x"] if "container" in word else [])])


@pytest.mark.parametrize(
    ("scheduler", "directive"),
    [
        ("slurm", "--array=1-3"),
        ("slurm", "--nodes=9"),
        ("slurm", "-N9"),
        ("slurm", "--output=/dev/null"),
        ("slurm", "--dependency afterok:1"),
        ("pbs", "-J 0-3"),
        ("pbs", "-l select=9"),
        ("pbs", "-l walltime=9:00:00"),
        ("pbs", "-W depend=afterok:1"),
        ("gridengine", "-t 1-4"),
        ("gridengine", "-l h_rt=9:00:00"),
        ("gridengine", "-pe mpi 8"),
    ],
)
def test_what_a_jobs_own_options_say_is_not_said_again(scheduler: str, directive: str) -> None:
    assert is_ours(directive, scheduler)


@pytest.mark.parametrize(
    ("scheduler", "directive"),
    [
        ("slurm", "--constraint=h200"),
        ("slurm", "--exclusive"),
        ("slurm", "--no-requeue"),
        ("slurm", "-C h200"),
        ("pbs", "-l place=scatter"),
        ("pbs", "-W group_list=x"),
        ("gridengine", "-l mem_free=4G"),
        ("gridengine", "-p -10"),
    ],
)
def test_what_a_site_wants_beside_them_may_be_said(scheduler: str, directive: str) -> None:
    assert not is_ours(directive, scheduler)


@pytest.mark.parametrize("word", ["$(touch x)", "`touch x`", 'a" ; touch x ; "', "a\\", "a\nb"])
def test_mpirun_gets_no_word_that_its_shell_on_other_nodes_would_read(word: str) -> None:
    """Open MPI 5 passes --prtemca and --pmixmca on in double quotes, and the folder above its own bare."""
    words = ["exp=exp5", "site=slurm", "nodes=2", "data.path=/data"]
    config = compose(words)
    assert config.site.launcher == "mpirun"
    config.site.launcher_options = ["--prtemca", "plm_base_verbose", word]
    with pytest.raises(UserError, match=r"^site\.launcher_options\[2\]=.*mpirun gives it to a shell on other nodes"):
        check(config)
    config = compose(words)
    config.site.launcher_path = f"/opt/{word}/bin/mpirun"
    with pytest.raises(UserError, match=r"^site\.launcher_path=.*a shell on other nodes reads it"):
        check(config)
    config = compose([*words, "site.launcher=srun"])
    config.site.launcher_options = [f"--comment={word}"]
    check(config)  # srun has no shell
