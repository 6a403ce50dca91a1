"""Process groups for all-reduces: by row, column and node of the grid, over all workers, over the nodes' masters.

Every phase takes a new one, so that its messages keep their order whatever other phases do. All workers ask for the
same ones in the same order.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

import torch.distributed as dist

from pipeline.allreduce.ports import GlooPort, NcclPort, Port

Kind = Literal["row", "column", "node", "masters", "world"]


class Communicators:
    """Makes process groups on this worker, and ends them."""

    def __init__(
        self,
        rank: int,
        grid: tuple[int, int],
        nodes: Sequence[Sequence[int]],
        *,
        backend: str,
        timeout_s: float,
    ) -> None:
        """Take the workers' layout.

        grid: (vertical, horizontal). nodes: the ranks on every node. backend: `gloo` or `nccl`. timeout_s: a message
        that takes longer is an error.
        """
        vertical, horizontal = grid
        self.rank, self.grid, self.backend = rank, grid, backend
        self._timeout_s = timeout_s
        self.nodes = tuple(tuple(node) for node in nodes)
        self._sets: dict[Kind, list[list[int]]] = {
            "row": [[row * horizontal + column for column in range(horizontal)] for row in range(vertical)],
            "column": [[row * horizontal + column for row in range(vertical)] for column in range(horizontal)],
            "node": [list(node) for node in self.nodes],
            "masters": [[node[0] for node in self.nodes]],
            "world": [list(range(vertical * horizontal))],
        }
        self._groups: list[dist.ProcessGroup] = []

    @property
    def size(self) -> int:
        """Workers in all."""
        return self.grid[0] * self.grid[1]

    @property
    def node_of_rank(self) -> list[int]:
        """The node of every rank, counted from 0."""
        places = {rank: node for node, ranks in enumerate(self.nodes) for rank in ranks}
        return [places[rank] for rank in range(self.size)]

    def fresh(self) -> "Communicators":
        """The same layout, with no group made yet."""
        return Communicators(self.rank, self.grid, self.nodes, backend=self.backend, timeout_s=self._timeout_s)

    def new(self, kind: Kind) -> dist.ProcessGroup | None:
        """A new communicator of this worker's row, column, …; None where it is in none, as one that is no master."""
        mine: dist.ProcessGroup | None = None
        for ranks in self._sets[kind]:
            # Every worker calls it for all of them, as torch.distributed asks for.
            group = dist.new_group(ranks, timedelta(seconds=self._timeout_s), self.backend)
            if self.rank in ranks:
                assert isinstance(group, dist.ProcessGroup), "this rank is in it"
                mine = group
        if mine is not None:
            self._groups.append(mine)
        return mine

    def group(self, kind: Kind) -> dist.ProcessGroup:
        """A new communicator of this worker's row, column, node, or all workers."""
        made = self.new(kind)
        assert made is not None, f"every worker has a {kind}"
        return made

    def ports(self, kind: Kind, count: int = 1) -> tuple[Port, ...]:
        """Ports for one phase of `count` lanes; none where this worker is in no such group.

        gloo tells the lanes' messages apart on one communicator; on NCCL each lane has its own.
        """
        if self.backend == "gloo":
            group = self.new(kind)
            return () if group is None else tuple(GlooPort(group, tag) for tag in range(count))
        groups = [self.new(kind) for _ in range(count)]
        return tuple(NcclPort(group) for group in groups if group is not None)

    def port(self, kind: Kind) -> Port:
        """A port for one phase, to this worker's row, column, node, or all workers."""
        return self.ports(kind)[0]

    def close(self) -> None:
        """End every group that was made."""
        for group in self._groups:
            dist.destroy_process_group(group)
        self._groups.clear()
