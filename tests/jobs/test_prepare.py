"""Going on with a run: what may change, and what would make another run of it."""

from pathlib import Path

import pytest

from jobs import prepare
from jobs.compose import compose
from pipeline.errors import UserError
from pipeline.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path, sample: Path) -> RunFolder:
    """The folder of a run that was prepared and not started."""
    words = ["exp=exp5", f"data.path={sample}", f"run.dir={tmp_path}/run"]
    return prepare.create(compose(words), words)


def test_another_decoder_is_refused_in_one_line(folder: RunFolder) -> None:
    with pytest.raises(UserError, match=r"data.decoder was dali in .*/run and is torchvision now; a run goes on as it"):
        prepare.resume(str(folder.path), ["data.decoder=torchvision"])


@pytest.mark.parametrize("word", ["data.decoder_threads=2", "data.on_bad_sample=replace", "data.prefetch_updates=5"])
def test_what_changes_no_pixel_of_a_good_sample_may_change(folder: RunFolder, word: str) -> None:
    _, config = prepare.resume(str(folder.path), [word])
    assert config == compose(["exp=exp5", f"data.path={config.data.path}", f"run.dir={config.run.dir}", word])


def test_a_run_that_was_regridded_keeps_its_older_checkpoints_and_asks_again_before_the_next_grid(
    folder: RunFolder,
) -> None:
    _, config = prepare.resume(str(folder.path), ["workers=2", "resume.regrid=true"])
    assert (config.workers, config.resume.regrid) == (2, True)
    _, config = prepare.resume(str(folder.path), ["allreduce.timeout_s=900"])  # as the line of a lost worker has it
    assert (config.workers, config.resume.regrid, config.allreduce.timeout_s) == (2, True, 900.0)
    with pytest.raises(UserError, match=r"workers was 2 in .* and is 1 now; .* unless resume.regrid=true lets"):
        prepare.resume(str(folder.path), ["workers=1"])


def test_two_who_go_on_with_a_run_at_once_do_not_take_turns_at_its_configuration(folder: RunFolder) -> None:
    with prepare.going_on(str(folder.path), ["run.stop_after_updates=81"]):
        before = folder.config.read_bytes()
        with (
            pytest.raises(UserError, match="is being started or submitted by somebody else just now"),
            prepare.going_on(str(folder.path), ["run.stop_after_updates=82"]),
        ):
            pass
        assert folder.config.read_bytes() == before


def test_what_was_found_of_earlier_attempts_stays_in_the_environment(folder: RunFolder) -> None:
    with folder.environment.open("a") as file:
        file.write("\nattempt 0, on a day\nhosts node7\n")
    prepare.resume(str(folder.path), [])
    assert "hosts node7" in folder.environment.read_text()
    assert folder.environment.read_text().startswith("host ")


def test_a_new_run_that_is_refused_leaves_its_name_free(
    tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "@it's: a #secret")
    words = ["exp=exp5", f"data.path={sample}", f"run.dir={tmp_path}/new"]
    config = compose(words)
    config.site.environment["LOGIN"] = "user @it's: a #secret"  # which YAML quotes
    with pytest.raises(UserError, match="the configuration holds the value of SOME_TOKEN"):
        prepare.create(config, words)
    assert not (tmp_path / "new").exists()


def test_a_run_folder_that_somebody_else_could_have_written_is_not_gone_on_with(folder: RunFolder) -> None:
    folder.path.chmod(0o770)
    before = folder.script.read_bytes()
    folder.overrides.write_text(f"- site.python={folder.path}/evil\n")
    with pytest.raises(UserError, match=r"run can be written by others \(mode 0770\), so what is in "):
        prepare.resume(str(folder.path), [])
    assert folder.script.read_bytes() == before


def test_the_value_of_a_secret_variable_is_not_written(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hf_0123456789")
    before = folder.config.read_bytes()
    with pytest.raises(UserError, match="the configuration holds the value of SOME_TOKEN, which looks like a secret"):
        prepare.resume(str(folder.path), ["+site.environment.LOGIN='user hf_0123456789'"])
    assert folder.config.read_bytes() == before
