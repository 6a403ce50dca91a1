"""What papers report is of experiments and sites that conf/ has."""

from dataclasses import replace

import pytest

from jobs.published import check_names, read
from pipeline.errors import UserError


def test_an_experiment_or_a_site_that_conf_lacks_is_refused_with_the_nearest_that_it_has() -> None:
    found = read()
    runs, efficiency = list(found.runs), list(found.efficiency)
    kumar = next(one for one in runs if one.experiment == "kumar")
    wrong = {
        "experiments.yaml: experiment=kumaro: no such choice, did you mean kumar?": replace(
            found, runs=(replace(kumar, experiment="kumaro"),)
        ),
        "experiments.yaml: kumar: site=abcd: no such choice, did you mean abci?": replace(
            found, runs=(replace(kumar, site="abcd"),)
        ),
        "scaling.yaml: Mikami et al. 2018: site=abcd: no such choice": replace(
            found, efficiency=(replace(efficiency[0], site="abcd"),)
        ),
    }
    for line, published in wrong.items():
        with pytest.raises(UserError) as caught:
            check_names(published)
        assert line in str(caught.value)
