"""How a grid lies on nodes, in words for a person: legal grids best first, and what a row that splits a node costs.

By the model of algorithms.py on the site's network. Torch-free.
"""

from collections.abc import Sequence

from pipeline.config.site import LinkConfig, NetworkConfig
from pipeline.estimate.algorithms import GridTime, legal_grids, split_rows
from pipeline.estimate.network import Level, Network


def as_network(config: NetworkConfig) -> Network:
    """The model's network of a site's."""
    rack = None if config.rack is None else _level(config.rack)
    return Network(_level(config.worker), _level(config.node), rack, config.nodes_per_rack)


def _level(link: LinkConfig) -> Level:
    return Level(link.gb_per_s * 1e9, link.latency_us * 1e-6)


def node_by_node(workers: int, workers_per_node: int | None) -> list[int]:
    """The node of every rank where ranks fill one node after another; None: one node takes all."""
    return [rank // (workers_per_node or workers) for rank in range(workers)]


def listed(grids: Sequence[GridTime], most: int = 5) -> str:
    """`2x2 (1.31 ms), 1x4 (1.95 ms), …`, the best first; a grid whose rows split a node is marked."""
    words = [
        f"{grid.vertical}x{grid.horizontal} ({1000 * grid.time_s:.3g} ms{', splits a node' * grid.splits_a_node})"
        for grid in grids[:most]
    ]
    return ", ".join(words) + (", …" if len(grids) > most else "")


def warning(grid: tuple[int, int], node_of_rank: Sequence[int], network: Network, size_bytes: float) -> str:
    """One line where rows split a node and that costs a torus all-reduce of `size_bytes` something; else nothing."""
    rows = split_rows(grid, node_of_rank)
    if not rows:
        return ""
    grids = legal_grids(len(node_of_rank), node_of_rank, network, size_bytes)
    here = next(one for one in grids if (one.vertical, one.horizontal) == grid)
    whole = next(one for one in grids if not one.splits_a_node)  # there always is one: a single row splits nothing
    if whole.time_s >= here.time_s:  # the workers' ports are the narrowest, not the nodes'
        return ""
    return (
        f"{len(rows)} of {grid[0]} rows split a node, so that its link carries two rows' traffic: "
        f"{1000 * here.time_s:.3g} ms an all-reduce of {size_bytes / 1e6:.3g} MB by the model, and "
        f"{1000 * whole.time_s:.3g} ms on {whole.vertical}x{whole.horizontal}; "
        f"take grid.vertical={whole.vertical} grid.horizontal={whole.horizontal}"
    )
