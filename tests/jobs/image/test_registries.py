"""What pip was told here reaches a build by mounts: settings, folders and certificates."""

from pathlib import Path

from jobs.image.registries import registries


def test_settings_of_places_are_kept_and_paths_of_this_machine_are_not() -> None:
    listed = (
        "global.index-url='https://user:word@index.example/simple'\n"
        "global.constraint='/etc/xdg/pip/constraints.txt'\n"
        "global.cert='/etc/ssl/own.pem'\n"
        ":env:.find-links='/wheels /more'\n"
        "global.find-links='/old'\n"
        ":env:.disable-pip-version-check='1'\n"
    )
    found = registries(listed, {})
    assert found.settings == (
        "[global]\nindex-url = https://user:word@index.example/simple\nfind-links = /wheels\n    /more\n"
    )
    assert found.certificates == Path("/etc/ssl/own.pem")


def test_folders_that_are_named_are_mounted_an_index_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "index" / "simple").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    listed = f"global.extra-index-url='file://{tmp_path}/index/simple'\nglobal.find-links='{tmp_path}/wheels /absent'"
    assert set(registries(listed, {}).folders) == {tmp_path / "index", tmp_path / "wheels"}


def test_where_pip_was_told_nothing_nothing_is_mounted() -> None:
    found = registries("", {})
    assert (found.settings, found.folders, found.certificates) == ("", (), None)
