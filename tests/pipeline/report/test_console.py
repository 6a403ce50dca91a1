"""What a person reads: the header names what runs, lines come in a log, tables keep values apart."""

import io
from typing import Any

import pytest
from rich.console import Console

from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.report.console import (
    ProgressDisplay,
    print_averaging,
    print_comparison,
    print_header,
    print_result,
    scale_note,
)

RESULT: dict[str, Any] = {
    "experiment": "exp5", "scale_model": True, "gpus": 2176, "workers": 4, "grid": {"vertical": 2, "horizontal": 2},
    "updates": 2010, "updates_by_stage": [1110, 570, 330], "skipped_updates": 3, "top1": 97.25,
    "validation_images": 1000, "wall_time_s": 101.0, "loop_time_s": 90.0, "images_per_s": 2421.4,
    "communication_share": 0.123,
}  # fmt: skip

AVERAGING: dict[str, Any] = {
    "name": "torus", "asked_for": "torus", "grid": [34, 64], "nodes": [4] * 544, "wire": "fp16",
    "bucket_bytes": [4_000_000, 13_107_200], "chunk_bytes": 1 << 20, "backend": "nccl", "warning": "", "measured": [],
    "transport": "nccl, IB on mlx5_0:1/IB",
}  # fmt: skip


def text_of(stream: io.StringIO) -> str:
    return " ".join(stream.getvalue().split())


def plain() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, width=140, force_terminal=False), stream


def line(update: int, time_s: float, batch: int = 64) -> dict[str, float | int]:
    return {
        "update": update, "epoch": update / 37, "loss": 0.5, "lr": 3.1, "momentum": 0.9, "batch": batch,
        "time_s": time_s,
    }  # fmt: skip


def test_a_result_on_synthetic_images_has_no_top1() -> None:
    console, stream = plain()
    unmeasured = RESULT | {"top1": None, "validation_images": 0}
    print_result(console, unmeasured)
    assert "top-1" not in text_of(stream)
    print_comparison(console, [("runs/a", unmeasured)])
    assert "none" in text_of(stream)


def test_a_full_size_header_never_says_scale_model() -> None:
    console, stream = plain()
    config = compose(["exp=exp5", "scale=null", "workers=16"])
    print_header(console, config, make_plan(config))
    text = text_of(stream)
    assert "exp5: full size" in text
    assert "scale model" not in text
    assert "16 for 2,176 virtual ones" in text
    assert "16 x 136 a worker, 34,816 in all from epoch 0" in text


def test_progress_lines_are_plain_and_a_few_seconds_apart() -> None:
    console, stream = plain()
    display = ProgressDisplay(console, make_plan(compose(["exp=exp5"])), first_update=0, every_s=1e6)
    for update in (10, 20, 30):
        display.show(line(update, update / 10))
    display.show(line(2010, 201))
    display.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2  # the first and the last
    assert lines[-1].startswith("epoch 90.0/90 update 2010/2010 loss 0.500 LR 3.100 momentum 0.900 batch 64")
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(("lr", "shown"), [(3.1, "3.100"), (0.151, "0.151"), (0.00625, "0.00625"), (0.0, "0.000")])
def test_a_small_lr_keeps_its_digits(lr: float, shown: str) -> None:
    console, stream = plain()
    display = ProgressDisplay(console, make_plan(compose(["exp=exp5"])), first_update=0, every_s=0)
    display.show(line(10, 1.0) | {"lr": lr})
    assert f" LR {shown} momentum" in stream.getvalue()


def test_the_rate_and_the_eta_are_of_the_last_seconds() -> None:
    console, stream = plain()
    display = ProgressDisplay(console, make_plan(compose(["exp=exp5"])), first_update=0, every_s=0)
    display.show(line(10, 1.0))
    display.show(line(20, 2.0))
    # 10 updates of 64 images in 1 s; left: 1090 of 64, 570 of 128, 330 of 224 = 216,640 images, 338.5 s.
    assert "640 images/s ETA 0:05:38" in stream.getvalue()


def test_a_terminal_gets_a_live_bar() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=140, force_terminal=True)
    display = ProgressDisplay(console, make_plan(compose(["exp=exp5"])), first_update=0, every_s=1e6)
    display.show(line(1005, 50.0))
    display.close()
    assert "\x1b" in stream.getvalue()
    assert "50%" in stream.getvalue()
    assert "update 1005/2010" in stream.getvalue()


def test_the_result_says_that_it_is_a_scale_model_and_what_was_skipped() -> None:
    console, stream = plain()
    print_result(console, RESULT)
    text = text_of(stream)
    for part in (
        "scale model of 2176 GPUs, result",
        "97.25 % of 1,000",
        "2,010 (1,110 + 570 + 330)",
        "3 updates whose",
    ):
        assert part in text, part


def test_a_scale_model_whose_batch_is_larger_than_the_papers_share_says_so() -> None:
    notes = {name: scale_note(compose([f"exp={name}"])) for name in ("he", "goyal", "smith", "akiba", "kumar", "exp5")}
    assert notes == {
        "he": "scale model of 8 GPUs, not to scale", "goyal": "scale model of 256 GPUs, not to scale",
        "smith": "scale model of 256 GPUs, not to scale", "akiba": "scale model of 1024 GPUs",
        "kumar": "scale model of 256 GPUs", "exp5": "scale model of 2176 GPUs",
    }  # fmt: skip
    assert scale_note(compose(["exp=goyal", "scale=null"])) == "full size"
    for show in (print_result, lambda console, found: print_comparison(console, [("runs/a", found)])):
        console, stream = plain()
        show(console, RESULT | {"gpus": 8, "to_scale": False})
        assert "of 8 GPUs, not to scale" in text_of(stream)


def test_a_run_without_a_result_appears_as_such_in_a_comparison() -> None:
    console, stream = plain()
    print_comparison(console, [("runs/a", RESULT), ("runs/b", None), ("runs/c", RESULT | {"scale_model": False})])
    text = text_of(stream)
    assert "of 2176 GPUs" in text
    assert "no, full size" in text
    assert "no result" in text
    assert "runs/b" in text


def test_what_averages_gradients_is_one_line() -> None:
    console, stream = plain()
    print_averaging(console, AVERAGING)
    assert stream.getvalue() == (
        "all-reduce: torus on 34 x 64, 544 nodes; 2 buckets of up to 13.1 MB fp16, chunks of 1.05 MB; "
        "nccl, IB on mlx5_0:1/IB\n"
    )


def test_one_node_and_one_bucket_are_said_as_such() -> None:
    console, stream = plain()
    print_averaging(console, AVERAGING | {"nodes": [4], "grid": [2, 2], "bucket_bytes": [2000]})
    assert "torus on 2 x 2, 1 node; 1 bucket of up to 0.002 MB fp16" in stream.getvalue()


def test_what_auto_measured_is_a_table_with_the_quickest_first_and_says_what_it_took() -> None:
    console, stream = plain()
    measured = [
        {"name": "tree", "median_s": 0.0012345, "chunk_bytes": 65536},
        {"name": "ring", "median_s": 0.5, "chunk_bytes": 1 << 20},
    ]
    print_averaging(console, AVERAGING | {"name": "tree", "asked_for": "auto", "measured": measured})
    text = text_of(stream)
    assert "all-reduce: tree (by auto) on 34 x 64" in text
    assert text.index("0.0655") < text.index("1.23") < text.index("1.05 │ 500.00")


def test_a_warning_stands_below_on_a_line_of_its_own() -> None:
    console, stream = plain()
    print_averaging(console, AVERAGING | {"warning": "32 of 32 rows split a node; " + 30 * "long " + "end"})
    assert stream.getvalue().splitlines()[1] == "warning: 32 of 32 rows split a node; " + 30 * "long " + "end"
