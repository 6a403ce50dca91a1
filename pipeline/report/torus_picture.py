"""Draws docs/pictures/torus.svg, the 2D torus and its three steps: `python -m pipeline.report.torus_picture`.

The idea is Mikami et al. 2018's Figs. 1 and 2; the drawing is ours. A worker is a box with one cell for each chunk of
its gradient. A cell's colour is its chunk, its number says how many workers' gradients are summed in it, and a cell
that a step has no use for is empty. Same code, same bytes: no date, no font file, no library. Torch-free.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from pipeline.report.palette import GREY, SERIES

ROWS, COLUMNS = 3, 4
PATH = Path("docs/pictures/torus.svg")

WIDTH, HEIGHT = 900, 716
"""Of the picture, in pixels at the size it is meant to be shown."""
PANEL_WIDTH, PANEL_HEIGHT = 450, 336
CELL_WIDTH, CELL_HEIGHT = 19, 22
BOX_WIDTH, BOX_HEIGHT = COLUMNS * CELL_WIDTH + 6, CELL_HEIGHT + 8
STEP_X, STEP_Y = BOX_WIDTH + 24, BOX_HEIGHT + 42
LEFT, TOP = 27, 102
"""Of the first worker's box in its panel."""


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=PATH, help=f"by default {PATH}")
    parser.parse_args(arguments).path.write_text(picture())


def picture() -> str:
    """The whole picture as SVG."""
    size, everything = f"{ROWS} x {COLUMNS}", ROWS * COLUMNS
    panels = [
        panel("The torus", f"{size} workers, each with its own gradient in {COLUMNS} chunks",
              summed=1, scattered=False, rows=True, columns=True),
        panel("1. Reduce-scatter along the rows", "each worker ends with one chunk, summed over its row",
              summed=COLUMNS, scattered=True, rows=True, columns=False),
        panel("2. All-reduce along the columns", f"that chunk, 1/{COLUMNS} of the gradient, summed over all rows",
              summed=everything, scattered=True, rows=False, columns=True),
        panel("3. All-gather along the rows", f"every worker ends with all chunks, summed over all {everything}",
              summed=everything, scattered=False, rows=True, columns=False),
    ]  # fmt: skip
    places = [(index % 2 * PANEL_WIDTH, index // 2 * PANEL_HEIGHT) for index in range(4)]
    body = "\n".join(
        f'<g transform="translate({x} {y})">\n{one}\n</g>' for one, (x, y) in zip(panels, places, strict=True)
    )
    size_in_pixels = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    fonts = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size_in_pixels} role="img" font-family="{fonts}">
<title>The 2D-torus all-reduce on {size} workers, in three steps</title>
<defs>{arrow_head("grey", GREY)}{arrow_head("blue", SERIES[0])}</defs>
{body}
{legend()}
</svg>
"""


def panel(title: str, caption: str, *, summed: int, scattered: bool, rows: bool, columns: bool) -> str:
    """One state of all workers.

    summed: gradients in each chunk. scattered: a worker holds one chunk, its column's. rows, columns: which rings carry
    data.
    """
    parts = [text(LEFT, 32, title, size=17, weight="bold"), text(LEFT, 54, caption, size=13)]
    for paths, active in ((row_links(), rows), (column_links(), columns)):
        parts += [link(path, active=active, plain=rows and columns) for path in paths]
    parts += [worker(row, column, summed, scattered) for row in range(ROWS) for column in range(COLUMNS)]
    return "\n".join(parts)


def row_links() -> Iterator[str]:
    """The rings of the rows: from each worker to the one at its right, from the last back to the first above them."""
    for row in range(ROWS):
        middle = TOP + row * STEP_Y + BOX_HEIGHT // 2
        for column in range(1, COLUMNS):
            end = LEFT + column * STEP_X
            yield f"M{end - STEP_X + BOX_WIDTH + 2} {middle}H{end - 2}"
        right, left, above = LEFT + (COLUMNS - 1) * STEP_X + BOX_WIDTH, LEFT, middle - BOX_HEIGHT // 2 - 9
        yield (
            f"M{right + 2} {middle}h8a6 6 0 0 0 6 -6V{above + 6}a6 6 0 0 0 -6 -6H{left - 10}"
            f"a6 6 0 0 0 -6 6V{middle - 6}a6 6 0 0 0 6 6h8"
        )


def column_links() -> Iterator[str]:
    """The rings of the columns: from each worker to the one below, from the last back to the first at their right."""
    for column in range(COLUMNS):
        middle, right = LEFT + column * STEP_X + BOX_WIDTH // 2, LEFT + column * STEP_X + BOX_WIDTH + 7
        for row in range(1, ROWS):
            end = TOP + row * STEP_Y
            yield f"M{middle} {end - STEP_Y + BOX_HEIGHT + 2}V{end - 2}"
        bottom, above = TOP + (ROWS - 1) * STEP_Y + BOX_HEIGHT, TOP - 22
        yield (
            f"M{middle} {bottom + 2}v6a6 6 0 0 0 6 6H{right - 6}a6 6 0 0 0 6 -6V{above + 6}"
            f"a6 6 0 0 0 -6 -6H{middle + 6}a6 6 0 0 0 -6 6V{TOP - 2}"
        )


def link(path: str, *, active: bool, plain: bool) -> str:
    """A part of a ring with its direction; blue where it carries data, faint where not; plain: all alike."""
    bold = active and not plain
    colour, width, opacity = (SERIES[0], 2.4, 1) if bold else (GREY, 1.5, 1) if active else (GREY, 1, 0.3)
    head = f' marker-end="url(#{"blue" if bold else "grey"})"' if active else ""
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" opacity="{opacity}"{head}/>'


def worker(row: int, column: int, summed: int, scattered: bool) -> str:
    """A worker's box: a cell for each chunk, in the chunk's colour, with the number of gradients summed in it."""
    x, y = LEFT + column * STEP_X, TOP + row * STEP_Y
    outline = f'x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"'
    parts = [f'<rect {outline} fill="none" stroke="{GREY}" stroke-width="1.2"/>']
    held = [0 if scattered and chunk != column else summed for chunk in range(COLUMNS)]
    parts += [cell(x + 3 + chunk * CELL_WIDTH, y + 4, chunk, count) for chunk, count in enumerate(held)]
    return "\n".join(parts)


def cell(x: int, y: int, chunk: int, count: int) -> str:
    """A chunk that a worker holds, or its empty place."""
    box = f'x="{x + 1}" y="{y}" width="{CELL_WIDTH - 2}" height="{CELL_HEIGHT}" rx="2"'
    if not count:
        return f'<rect {box} fill="none" stroke="{GREY}" stroke-width="0.8" stroke-dasharray="2 2" opacity="0.7"/>'
    number = text(x + CELL_WIDTH / 2, y + 15.5, str(count), size=11, weight="bold", colour="#ffffff", anchor="middle")
    return f'<rect {box} fill="{SERIES[chunk]}"/>{number}'


def legend() -> str:
    """What colours and numbers mean."""
    y = 2 * PANEL_HEIGHT + 6
    parts = [cell(LEFT + chunk * CELL_WIDTH, y, chunk, 1) for chunk in range(COLUMNS)]
    words = "chunks of the gradient; the number is how many workers' gradients are summed in it"
    return "\n".join([*parts, text(LEFT + COLUMNS * CELL_WIDTH + 10, y + 16, words, size=13)])


def arrow_head(name: str, colour: str) -> str:
    """A marker at the end of a ring."""
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="9" markerHeight="9" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
    )


def text(
    x: float, y: float, words: str, *, size: int, weight: str = "normal", colour: str = GREY, anchor: str = "start"
) -> str:
    """One line of text; y is its baseline."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


if __name__ == "__main__":
    main()
