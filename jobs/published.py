"""What papers report, where its experiments and sites are those of conf/. Torch-free."""

from jobs.compose import choices_of
from pipeline.config.choices import one_of
from pipeline.published import Published, experiments_file, scaling_file
from pipeline.published import read as read_files


def read() -> Published:
    """What conf/published/ holds. Raises UserError for an edit that makes no sense, and for a name that conf/ lacks."""
    found = read_files()
    check_names(found)
    return found


def check_names(found: Published) -> None:
    """Raise UserError for an experiment that conf/exp/ lacks, or a site that conf/site/ does."""
    experiments, sites = choices_of("exp"), choices_of("site")
    of_runs, of_scaling = experiments_file(), scaling_file()
    for run in found.runs:
        one_of(f"{of_runs}: experiment", run.experiment, experiments)
    named = [(f"{of_runs}: {run.experiment}: site", run.site) for run in found.runs]
    named += [(f"{of_scaling}: {one.system}: site", one.site) for one in found.efficiency]
    named += [(f"{of_scaling}: {one.system}: site", one.site) for one in found.systems]
    for key, site in named:
        if site:
            one_of(key, site, sites)
