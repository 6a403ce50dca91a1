"""What the make that runs these tests hands on to all below it, and a user's shell does not have."""

VARIABLES = frozenset(
    [
        "MAKEFLAGS",
        "MAKEOVERRIDES",
        "MAKELEVEL",
        "MFLAGS",
        "ARGS",
        "EXP",
        "RUN",
        "RESUME",
        "WORKERS",
        "NODES",
        "SITE",
        "GROUP",
        "DATA",
        "IMAGE",
        "FOLLOW",
        "RANK",
        "REPORT",
        "JSON",
        "PLOT",
    ]
)
