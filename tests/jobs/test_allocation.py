"""What a run asks of a site, and what the site grants."""

import pytest

from jobs.allocation import allocate, beyond_limits
from jobs.compose import compose
from pipeline.config import make_plan
from pipeline.errors import UserError

USERS = ["site.account=g", "data.path=/d", "container.image=/i.sif"]


def refusal(*words: str) -> str:
    config = compose(["exp=exp5", *USERS, *words])
    plan = make_plan(config)
    return beyond_limits(config, plan, allocate(config, plan))


def test_the_papers_run_is_544_nodes_of_abci_and_272_of_abci3() -> None:
    for site, nodes, workers in (("abci", 544, 4), ("abci3", 272, 8)):
        config = compose(["exp=exp5", *USERS, f"site={site}"])
        found = allocate(config, make_plan(config))
        assert (found.nodes, found.workers_per_node, found.workers) == (nodes, workers, 2176)


def test_more_nodes_than_a_site_grants_are_refused_with_those_that_would_do() -> None:
    line = refusal("site=abci3")
    assert line.startswith("exp5 needs 272 nodes (2,176 workers) and abci3 grants 128; take NODES=68 or 34 or 17 or 16")
    assert "site.reservation=" in line


def test_with_a_reservation_a_sites_limits_do_not_hold() -> None:
    assert refusal("site=abci3", "site.reservation=R1") == ""
    assert refusal("site=abci3", "nodes=16") == ""


def test_a_wall_time_beyond_the_sites_is_refused() -> None:
    assert refusal("site=abci3", "nodes=16", "site.wall_time=200:00:00").startswith(
        "site.wall_time=200:00:00 is longer than the 168 hours that abci3 grants"
    )


def test_a_run_that_needs_less_than_a_node_asks_for_part_of_one() -> None:
    config = compose(["exp=exp5", *USERS, "site=slurm", "workers=2"])
    found = allocate(config, make_plan(config))
    assert (found.nodes, found.workers_per_node, found.gpus_per_node) == (1, 2, 2)


def test_workers_that_do_not_fill_nodes_are_refused_with_the_nearest_that_do() -> None:
    config = compose(["exp=exp5", *USERS, "site=slurm", "workers=17"])
    with pytest.raises(
        UserError, match=r"17 workers do not fill nodes of 8 evenly; the nearest that do are 16 \(2 nodes"
    ):
        allocate(config, make_plan(config))
