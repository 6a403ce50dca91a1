"""A world of one rank, as mpi4py shows it."""

from typing import TypeVar

Value = TypeVar("Value")


class Alone:
    def Get_rank(self) -> int:
        return 0

    def allreduce(self, value: Value) -> Value:
        return value
