"""What a run is: the schema of conf/, the checks that need no cluster, the plan that follows from it. Torch-free."""

from pipeline.config.checks import check, check_data
from pipeline.config.plan import Grid, Plan, Stage, make_plan
from pipeline.config.schema import Config
from pipeline.config.stored import load, save

__all__ = ["Config", "Grid", "Plan", "Stage", "check", "check_data", "load", "make_plan", "save"]
