"""The options of bench.allreduce, and what is refused of them before anything starts. bench.network has some too."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from pipeline.config import Grid
from pipeline.config.checks import ALL_REDUCES, WIRES
from pipeline.errors import UserError

RING_AHEAD = "ring, ahead"
"""The flat ring with all its receives posted at the start."""


def parse(arguments: Sequence[str], description: str | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", help="VERTICALxHORIZONTAL; default: one row a node, or near a square on one node")
    parser.add_argument("--algorithms", default=",".join(ALL_REDUCES))
    parser.add_argument("--sizes", default="0.1,1,10", help="MB (1e6 bytes) on the wire")
    parser.add_argument("--wire", default="fp32", choices=WIRES, help="type on the wire; buckets are of it too")
    parser.add_argument("--chunks", default="sweep", help="MB of a chunk, several to try, or sweep")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--backend", default="gloo", choices=("gloo", "nccl"))
    parser.add_argument("--interface", help="network interface between nodes, as eth0")
    parser.add_argument("--rate", type=float, help="bit/s of a node's link in one direction, for the bound")
    parser.add_argument("--delay", type=float, default=0.0, help="s from node to node, one way; for the record")
    parser.add_argument("--timeout", type=float, default=300.0, help="s that a message may take")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--plot", type=Path, help="draw time over size into this file (.png or .svg)")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> None:
    """Raise UserError for the first option that cannot be used, before anything starts."""
    algorithms(options.algorithms)
    sizes_mb("--sizes", options.sizes)
    if options.chunks != "sweep":
        sizes_mb("--chunks", options.chunks)
    if options.grid:
        grid(options.grid, 1, 1)
    if options.repeats < 1:
        raise UserError(f"--repeats {options.repeats}: must be at least 1")
    for name in ("rate", "timeout"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"--{name} {value}: must be above 0")
    check_files(options.json, options.plot)


def check_files(rows: Path | None, plot: Path | None) -> None:
    """Raise UserError where the files of a bench could not be written at its end."""
    for option, path in (("--json", rows), ("--plot", plot)):
        if path is not None and not path.absolute().parent.is_dir():
            raise UserError(f"{option} {path}: there is no folder {path.absolute().parent}")
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise UserError(f"--plot {plot}: a name that ends in .png or .svg is asked for")


def algorithms(words: str) -> list[str]:
    """Names of all-reduces as tables have them; raises UserError for one that there is not."""
    names = [name.strip().replace("ring-ahead", RING_AHEAD) for name in words.split(",")]
    unknown = [name for name in names if name not in (*ALL_REDUCES, RING_AHEAD)]
    if unknown:
        raise UserError(
            f"--algorithms {unknown[0]}: no such all-reduce; there are {', '.join(ALL_REDUCES)}, ring-ahead"
        )
    return names


def sizes_mb(option: str, words: str) -> list[float]:
    """Sizes in MB; raises UserError for words that are none. At least 100 bytes, at most 100 GB."""
    try:
        sizes = [float(word) for word in words.split(",")]
    except ValueError:
        sizes = []
    if not sizes or not all(1e-4 <= size <= 1e5 for size in sizes):
        raise UserError(f"{option} {words}: sizes in MB are asked for, 0.0001 to 100000, as 0.1,1,10")
    return sizes


def grid(words: str | None, size: int, on_node: int) -> Grid:
    """The grid named, or a row a node; on one node one near a square. Raises UserError for words that are none."""
    if words:
        sides = words.lower().split("x")
        if len(sides) != 2 or not all(side.isdigit() and int(side) for side in sides):
            raise UserError(f"--grid {words}: VERTICALxHORIZONTAL is asked for, as 4x4")
        return Grid(int(sides[0]), int(sides[1]))
    if on_node < size and size % on_node == 0:
        return Grid(size // on_node, on_node)
    vertical = max(side for side in range(1, int(size**0.5) + 1) if size % side == 0)
    return Grid(vertical, size // vertical)
