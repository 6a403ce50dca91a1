"""What looks like a secret is found by its name, in an address, by its value; what does not, is not."""

import pytest

from jobs.compose import compose
from pipeline.config import check
from pipeline.config.secrets import SECRET, held, named
from pipeline.errors import UserError


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "https_proxy", "PGPASSWORD", "DEPLOY_KEY", "DB_PASS"]
)
def test_names_of_secrets(name: str) -> None:
    assert SECRET.search(name)


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "OMP_NUM_THREADS", "PATH", "KEYBOARD", "PASSIVE", "AUTHOR"])
def test_names_of_what_is_none(name: str) -> None:
    assert not SECRET.search(name)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("--env=HF_TOKEN=abc", "HF_TOKEN"), ("--export=ALL,X=1,DB_PASSWORD=x", "DB_PASSWORD"), ("--mca pml=ucx", "")],
)
def test_words_that_give_one_a_value(word: str, expected: str) -> None:
    assert named(word) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HF_TOKEN", "hf_0123456789", "HF_TOKEN"),
        ("HF_TOKEN", "hf", ""),  # too short to be told from other words
        ("PASSWORD_STORE", "/home/user", ""),
        ("http_proxy", "http://proxy:8080", ""),
        ("http_proxy", "http://user:word@proxy:8080", "http_proxy"),
        ("EDITOR", "hf_0123456789", ""),
    ],
)
def test_values_that_are_known_to_be_one(name: str, value: str, expected: str) -> None:
    assert held(f"run.dir: /home/user/{value}", {name: value}) == expected


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("container.image='docker://user:word@registry.example/torus224'", "container.image"),
        ("+site.environment.REMOTE='https://user:word@example.org/x'", "site.environment.REMOTE"),
        ("data.path='s3://key:word@bucket/x'", "data.path"),
    ],
)
def test_an_address_with_a_password_is_refused_without_showing_it(word: str, key: str) -> None:
    with pytest.raises(UserError, match=f"^{key} holds an address with a password") as refusal:
        compose(["exp=exp5", word])
    assert "user:word" not in str(refusal.value)


@pytest.mark.parametrize("key", ["site.launcher_options", "container.options", "site.extra_directives"])
def test_an_option_that_gives_a_secret_is_refused_without_showing_it(key: str) -> None:
    config = compose(["exp=exp5", "site=slurm", "nodes=2", "data.path=/data", "container=docker", "container.image=x"])
    group, _, name = key.partition(".")
    setattr(getattr(config, group), name, ["--env=HF_TOKEN=hidden"])
    with pytest.raises(UserError, match=rf"^{key}\[0\] gives HF_TOKEN, which looks like a secret") as refusal:
        check(config)
    assert "hidden" not in str(refusal.value)
