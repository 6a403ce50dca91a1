"""In which keys two configurations differ."""

from copy import deepcopy

from jobs.compose import compose
from pipeline.config.differences import differences


def test_keys_that_differ_have_both_values_lists_and_what_may_be_null_too() -> None:
    old = compose(["exp=exp5"])
    new = deepcopy(old)
    assert differences(old, new) == {}
    new.optim.lr, new.seed = 2.0, 7
    new.model.widths = [8]
    new.site.network.nodes_per_rack = 34
    new.site.environment = {"NCCL_DEBUG": "INFO"}
    assert differences(old, new) == {
        "optim.lr": (3.1, 2.0),
        "seed": (0, 7),
        "model.widths": ([32, 64], [8]),
        "site.network.nodes_per_rack": (None, 34),
        "site.environment.NCCL_DEBUG": (None, "INFO"),
    }
