"""The report's files: one HTML page, Markdown, and the figures as SVG and PNG. Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure as MatplotlibFigure

from pipeline.report import figure3, page, place, scaling_figure
from pipeline.report.curves import Curve, mean_curve
from pipeline.report.figure3 import as_svg, save
from pipeline.report.groups import Group
from pipeline.report.markdown import REBUILT
from pipeline.report.markdown import page as markdown
from pipeline.report.material import Material
from pipeline.report.paper_tables import paper_tables
from pipeline.report.run_table import run_table
from pipeline.run_folder import write_atomically
from pipeline.wording import counted

TITLE = "Torus224: the paper's tables and figure"

OF_FIGURE_3 = (
    "Lines are the training error, a mean over each epoch's images; rings the validation error; both means over an "
    "experiment's runs. Grey is the reference. The paper's own curves are not readable to us."
)


@dataclass(frozen=True)
class Drawn:
    """A figure of the report."""

    key: str
    title: str
    note: str
    whole: MatplotlibFigure
    """As its own file has it."""
    parts: Sequence[tuple[MatplotlibFigure, str]]
    """As the page has it: pictures of a phone's width, with what each shows in words."""


def write(material: Material, folder: Path) -> list[Path]:
    """Write all of it into `folder`, which is made where it is not there; returns the paths.

    Figures of an earlier report in it that this one does not have are removed. Raises UserError where a folder stands
    in the place of a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place.check_free(folder)
    tables, lines = [*paper_tables(material), run_table(material)], introduction(material)
    drawn = [*figures_3(material), scaling(material)]
    figures = [
        page.Figure(one.key, one.title, one.note, [page.Picture(as_svg(part), words) for part, words in one.parts])
        for one in drawn
    ]
    pictures = [(f"{one.key}.svg", f"{one.title}. {'. '.join(words for _, words in one.parts)}") for one in drawn]
    html, text = folder / place.PAGE, folder / place.TEXT
    if place.is_report(folder):
        place.remove_others(folder, [one.key for one in drawn])
    write_atomically(html, page.page(TITLE, lines, tables, figures))
    write_atomically(text, markdown(TITLE, [*lines, of_markdown()], tables, pictures))
    return [html, text, *(path for one in drawn for path in save(one.whole, folder / one.key))]


def introduction(material: Material) -> list[str]:
    """What is said first: what it is drawn from, and what was left out."""
    with_result = sum(record.outcome is not None for record in material.records)
    lines = [
        "The tables of Mikami et al. 2018, ImageNet/ResNet-50 Training in 224 Seconds (arXiv 1811.05233v1), and its "
        f"Figure 3, drawn from {counted(len(material.records), 'run')}, {with_result} with a result."
    ]
    return lines + [f"Left out: {folder}: {why}" for folder, why in material.left_out]


def of_markdown() -> str:
    return (
        f"{REBUILT} rebuilt: not readable to us, our best justified value, never the paper's. Empty: nothing was run."
    )


def figures_3(material: Material) -> list[Drawn]:
    """Figure 3 at full size and of scale models, where there are runs of these."""
    titles = {recipe.experiment: recipe.title for recipe in material.recipes}
    found = []
    for name, of in (("full size", material.measured), ("scale models", material.scale_models)):
        panels = figure3.panels(means(of, material.curves), titles)
        if panels:
            title = f"Figure 3: error by epoch, {name}"
            parts = [(figure3.draw([one]), one.in_words()) for one in panels]
            found.append(
                Drawn(f"figure-3-{name.replace(' ', '-')}", title, OF_FIGURE_3, figure3.draw(panels, title), parts)
            )
    return found


def scaling(material: Material) -> Drawn:
    drawn, words = scaling_figure.draw(material), scaling_figure.in_words(material)
    return Drawn("scaling", "Scaling efficiency", "Table 6 as a picture.", drawn, [(drawn, words)])


def means(of: Mapping[str, Group], curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """The curve of each experiment: the mean of its runs'."""
    found = {}
    for experiment, group in of.items():
        drawn = [curves[record.folder] for record in group.records if record.folder in curves]
        if drawn:
            found[experiment] = mean_curve(drawn)
    return found
