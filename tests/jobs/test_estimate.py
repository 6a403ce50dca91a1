"""`make estimate`: what it prints, what it gives to programs, what it refuses; and what submit says of it."""

import json
import re
from pathlib import Path

import pytest

from jobs import batch, compose, estimate
from jobs.render import STAND_INS
from pipeline.errors import UserError
from pipeline.estimate.prediction import predict
from pipeline.report.estimate_tables import print_prediction
from pipeline.run_folder import OF_A_RESULT, RunFolder

PNG = b"\x89PNG\r\n\x1a\n"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert estimate.main(words) == 0
    return capsys.readouterr().out


def test_json_has_the_bracket_the_papers_figure_and_the_misfit(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "exp=reference", "site=abci", "format=json"))
    low, high = found["efficiency"]
    assert 0 < low < high < 100
    assert found["published_efficiency"] == 91.62
    assert found["misfit"] == max(0, 91.62 - high) + min(0, 91.62 - low)
    assert (found["workers"], found["nodes"], found["grid"]) == (1088, 272, [34, 32])
    assert sum(stage["updates"] for stage in found["stages"]) == 3330
    assert len(found["grids"]) == 10
    assert {one["name"] for one in found["all_reduces"]} >= {"torus", "ring", "tree", "hierarchical"}
    assert found["total_s"][0] == pytest.approx(
        found["start_s"] + found["staging_s"] + found["training_s"][0] + found["exchange_s"][0] + found["validation_s"]
    )


def test_text_has_the_tables_the_misfit_with_its_candidates_and_what_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = told(capsys, "exp=exp2", "site=abci")
    for part in (
        "2,176 workers on 544 nodes", "34x64 (the recipe's)", "node-hours", "tree", "about 70 % above 2176", "224 s",
        "may stand behind a misfit:", "left out:", "P", "0 to 30",
    ):  # fmt: skip
        assert part in out, part
    assert "first chunk" not in out


def test_explain_prints_formulas_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "exp=reference", "site=abci", "explain=true")
    for part in (
        "1 x 32 / 769 = 41.612 ms",  # 32 images at 769 a second
        "reduce-scatter on the row: 31 steps",
        "x 2 =",
        "3,330 x",
        "node-hours = nodes x total / 3600 = 272",
    ):
        assert part in out, part


def test_what_explain_prints_recombines_to_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    """Each right-hand side, worked out again from the figures that stand in it."""
    out = told(capsys, "exp=exp2", "site=abci", "explain=true")
    checked = 0
    for line in out.splitlines():
        if not re.match(
            r"  bucket \d+(:| done).* = |  reduce-scatter|  all-gather|  no overlap|validation =|exchange =", line
        ):
            continue
        *_, values, result = re.sub(
            r" \(a (node|rack|worker)'s \w+\)", "", line.removesuffix(", or with the training: 0")
        ).split(" = ")
        values = values.split(": ")[-1].replace(" x ", " * ").replace("MB", "").replace("GB/s", "").replace("GB", "")
        if "elements" in line or "in chunks" in line:
            continue
        found = eval(values, {"max": max})
        assert found == pytest.approx(float(result.split()[0]), rel=2e-3, abs=2e-3), line
        checked += 1
    # four buckets; four phases, whose sum stands last; two stages of four buckets done and one sum; and the last two
    assert checked == 4 + 4 + 2 * (4 + 1) + 2


def test_a_picture_is_drawn_where_it_is_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "efficiency.png"
    out = told(capsys, "exp=reference", "--plot", str(path), "site=abci", "site.name='$x^$'")
    assert out.endswith(f"{path}: efficiency over workers\n")
    assert path.read_bytes().startswith(PNG)


def test_a_run_of_this_size_is_set_beside_and_another_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.config.write_text("{}\n")
    words = ("exp=reference", "site=abci", "format=json", "--run", str(folder.path))
    with pytest.raises(UserError, match="no result yet"):
        estimate.main(words)
    result = dict.fromkeys(OF_A_RESULT, 0) | {
        "experiment": "reference",
        "scale_model": False,
        "workers": 1088,
        "grid": {"vertical": 34, "horizontal": 32},
        "all_reduce": "torus",
        "updates": 3330,
        "loop_time_s": 400.0,
    }
    folder.result.write_text(json.dumps(result))
    found = json.loads(told(capsys, *words))
    assert found["measured_s"] == 400
    assert found["measured_misfit_s"] == pytest.approx(400 - found["loop_s"][1])
    others: list[tuple[dict[str, object], str]] = [
        ({"workers": 544}, "its workers is 544, and the estimate's is 1,088"),
        ({"scale_model": True}, "its scale model is yes, and the estimate's is no"),
        ({"grid": {"vertical": 32, "horizontal": 34}}, "its grid is 32x34, and the estimate's is 34x32"),
        ({"all_reduce": "ring"}, "its all reduce is ring, and the estimate's is torus"),
        ({"experiment": None}, "its experiment is not told, and the estimate's is reference"),
        ({"loop_time_s": float("nan")}, "no loop_time_s"),
    ]
    for other, line in others:
        folder.result.write_text(json.dumps(result | other))
        with pytest.raises(UserError, match=line):
            estimate.main(words)


def test_names_are_text_and_a_scale_model_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = ("site.name='[/red]$x$'", "experiment='[b]'")
    out = told(capsys, "exp=exp2", "site=abci", "scale=544", *hostile)
    assert "[b] at [/red]$x$, scale model of 2176 GPUs: 4 workers on 1 node" in out


def test_a_narrow_terminal_loses_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console = estimate.console_of(is_terminal=True)
    with console.capture() as captured:
        print_prediction(console, predict(compose.compose(["exp=exp2", "site=abci"], stand_ins=STAND_INS)))
    for figure in ("34,816", "1,110", "20.8", "43.31 … 49.79", "(the recipe's)"):
        assert figure in captured.get(), figure


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["format=yaml"], "format=yaml: there are text and json"),
        (["explain=yes"], "explain=yes: true or false"),
        (["exp=exp2", "site=abci", "format"], "format: Error parsing override"),
        (["plot=a.gif"], "a file ending in .png or .svg"),
        (["exp=exp5", "site=local"], "site local has no images/s of small_resnet on 16 pixels in fp32"),
        (["exp=exp2", "site=abci", "precision.compute=bf16"], "it has resnet50 on 224 pixels in fp16"),
        (["exp=kumar", "site=abci", "model=googlenet"], "site abci has no images/s of googlenet on 224 pixels in fp32"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], line: str) -> None:
    with pytest.raises(UserError, match=line.replace(".", r"\.")):
        estimate.main(words)


def test_submit_says_it_in_a_line_and_nothing_where_no_speed_is_known() -> None:
    line = batch.estimated(compose.compose(["exp=exp2", "site=abci"], stand_ins=STAND_INS))
    for part in ("estimate: ", "544 nodes", "node-hours", "wall time asked for 0:20:00"):
        assert part in line
    # 34 nodes: 1,195 s at least; a job of 600 s has 480 before it saves
    short = compose.compose(["exp=exp2", "site=abci", "nodes=34", "site.wall_time=600"], stand_ins=STAND_INS)
    assert "wall time asked for 600, at least 3 starts (site.requeue.max allows 4); make" in batch.estimated(short)
    assert batch.estimated(compose.compose(["exp=exp2", "site=slurm"], stand_ins=STAND_INS)) == ""


@pytest.mark.parametrize("site", ["abci3", "dgx_a100", "ethernet"])
def test_every_site_with_a_speed_can_be_asked(site: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "exp=exp2", f"site={site}", "format=json"))
    assert found["site"] == site
    assert 0 < found["total_s"][0] < found["total_s"][1]
