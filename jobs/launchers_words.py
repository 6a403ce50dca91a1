"""What mpirun says of a rank that was killed, in a line for a person. Pure; torch-free."""

import re


def killed_rank(said: str) -> str:
    """`rank 3 (process 71 on node2) was ended by signal 9`, from what mpirun printed; empty where it speaks of none."""
    found = re.search(r"rank (\d+) with PID (\d+) on node (\S+) .*?signal (\d+)", " ".join(said.split()))
    if found is None:
        return ""
    rank, pid, node, number = found.groups()
    return f"rank {rank} (process {pid} on {node}) was ended by signal {number}"
