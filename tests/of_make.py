"""What the make that runs these tests hands on to all below it, and a user's shell does not have."""

OF_MAKE_ITSELF = ("MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS")
OF_THE_MAKEFILE = (
    "ARGS", "EXP", "RUN", "RESUME", "WORKERS", "NODES", "SITE", "GROUP", "DATA", "IMAGE", "RUNS", "FOLLOW", "RANK",
    "REPORT", "JSON", "PLOT", "FROM", "PROCESSES", "BASE", "BUILDER", "SMALL", "format", "explain",
)  # fmt: skip
VARIABLES = frozenset((*OF_MAKE_ITSELF, *OF_THE_MAKEFILE))
