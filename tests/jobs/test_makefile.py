"""What make's variables become: words that no shell and no make reads."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from jobs.words_of_make import text, words
from tests import of_make


def make(repository: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name not in of_make.VARIABLES}
    return subprocess.run(
        ["make", *arguments], cwd=repository, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "value",
    [
        "g5", "1e5", "1_000", "1.50", "true", "a'b", 'a"b', "a b;c", "a,b", "[a]", "a\\", "a\\\\", "a\\'b", "a\\b",
        "{a}", "a=b", "'a'", "~/a", "a$b", "ümlaut", "#1", "nan",
    ],
)  # fmt: skip
def test_a_text_stays_the_text_that_it_is(value: str) -> None:
    override = OverridesParser.create().parse_override(f"site.account={text(value)}")
    assert override.value() == value
    assert isinstance(override.value(), str)


def test_null_stays_none() -> None:
    assert OverridesParser.create().parse_override(f"site.account={text('null')}").value() is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("5", "exp5"), ("reference", "reference"), ("1,2,flash", "exp1,exp2,flash"), ("reference, 2", "reference,exp2"),
        ("exp5", "exp5"), ("5 6", "5 6"), ("glob(exp*)", "glob(exp*)"),
    ],
)  # fmt: skip
def test_a_number_is_an_experiment_in_lists_too(given: str, meant: str) -> None:
    assert words({"EXP": given}) == [f"exp={meant}"]


def test_every_variable_has_its_key_and_one_that_is_empty_was_not_given() -> None:
    given = {"SITE": "slurm", "NODES": "1,2", "WORKERS": "", "RESUME": "runs/a b", "GROUP": "g", "HOME": "/root"}
    assert words(given) == ["site=slurm", "nodes=1,2", "run.resume='runs/a b'", "site.account='g'"]


def test_both_folders_of_prepare_are_taken_as_they_are(repository: Path, tmp_path: Path) -> None:
    name = "a b'$c;id"
    done = make(repository, "prepare", f"DATA={tmp_path}/{name}", f"FROM={tmp_path}/{name}/x")
    assert f"error: {tmp_path}/{name}/x: no such file or folder" in done.stderr
    assert (tmp_path / name / ".prepare").is_dir()
    assert "name both folders" in make(repository, "prepare", f"DATA={tmp_path}").stderr


def test_group_data_and_image_reach_the_configuration_as_they_are(repository: Path) -> None:
    done = make(repository, "render", "EXP=5", "SITE=abci3", "NODES=16", "GROUP=1e5", "DATA=/a b'$c;id\\", "IMAGE=1.50")
    assert done.returncode == 0, done.stderr
    config = yaml.safe_load(done.stdout.partition("# config.yaml\n")[2])
    assert (config["site"]["account"], config["data"]["path"]) == ("1e5", "/a b'$c;id\\")
    assert config["container"]["image"] == "1.50"


@pytest.mark.parametrize(
    ("variable", "line"),
    [
        ("GROUP=a'b", "site.account=a'b: a scheduler takes"),
        ("SITE=slurm;touch {}", "site=slurm;touch {}: no such choice; there are abci,"),
        ("SITE=$(shell touch {})", "site=$(shell touch {}): "),
        ("EXP=$$(touch {})", "$(touch {})"),
        ("EXP='5", "exp='5"),
        ("EXP=5 6", "exp=5 6: no such choice; there are akiba, exp1,"),
        ("NODES=`touch {}`", "nodes=`touch {}`"),
        ("WORKERS=';touch {}", "workers=';touch {}"),
    ],
)
def test_what_a_shell_would_run_is_one_line_and_is_not_run(
    repository: Path, tmp_path: Path, variable: str, line: str
) -> None:
    witness = tmp_path / "witness"
    site = [] if variable.startswith("SITE") else ["SITE=slurm"]
    done = make(repository, "render", *site, variable.format(witness))
    assert done.returncode != 0
    errors = [one for one in done.stderr.splitlines() if not one.startswith(("make: ", "warning: "))]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("error: ")
    assert line.format(witness) in errors[0]
    assert not witness.exists()


@pytest.mark.parametrize("target", ["cancel", "logs", "status", "resubmit"])
def test_a_run_whose_name_looks_like_an_option_is_a_run(repository: Path, target: str) -> None:
    done = make(repository, target, "RUN=-x")
    assert "error: -x: no such run folder" in done.stderr


def test_a_run_is_not_read_by_a_shell(repository: Path, tmp_path: Path) -> None:
    run = f"$(touch {tmp_path}/witness)';touch {tmp_path}/witness"
    assert "no such run folder" in make(repository, "cancel", f"RUN={run.replace('$', '$$')}").stderr
    assert not (tmp_path / "witness").exists()


def test_all_may_be_given_in_args(repository: Path) -> None:
    done = make(
        repository, "render", "ARGS=exp=exp3 site=slurm data.path=/x 'site.extra_directives=[\"--constraint=a100\"]'"
    )
    assert done.returncode == 0, done.stderr
    config = yaml.safe_load(done.stdout.partition("# config.yaml\n")[2])
    assert (config["experiment"], config["site"]["name"]) == ("exp3", "slurm")
    assert config["site"]["extra_directives"] == ["--constraint=a100"]


def test_a_variable_that_is_not_given_does_not_stand_in_the_environment(repository: Path) -> None:
    told = make(repository, "--eval", "show: ; @env", "show", "GROUP=a'$b").stdout.splitlines()
    assert "GROUP=a'$b" in told
    assert not [line for line in told if line.startswith(("RANK=", "DATA=", "RUN="))]
