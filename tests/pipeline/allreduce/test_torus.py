"""The torus in a backend's own collectives, as it runs on NCCL; here they are gloo's."""

import torch
import torch.distributed as dist

from pipeline.allreduce import torus
from pipeline.allreduce.chunks import ThreadEngine
from pipeline.allreduce.hook import WIRES
from tests.pipeline.allreduce.layouts import join
from tests.worlds import run_world


def average(rank: int, _: int, store: dist.Store) -> dict[str, list[float]]:
    """On a grid of 2x2, seven elements in chunks of three at most: each is padded. By wire."""
    communicators = join(rank, store, (2, 2))
    found = {}
    for wire, dtype in WIRES.items():
        scheme = torus.on_collectives(*(communicators.group(kind) for kind in torus.KINDS))
        engine = ThreadEngine(scheme, dtype, chunk_bytes=3 * dtype.itemsize, pipelined=True, name="torus")
        bucket, large = torch.arange(7.0) * (rank + 1), torch.full((7,), 65_000.0)
        futures = [engine(bucket), engine(large)]
        assert [len(future.wait()) for future in futures] == [7, 7]
        engine.close()
        found[wire] = [*bucket.tolist(), *large.tolist()]
    return found


def test_the_backends_own_collectives_give_the_same_mean_of_an_uneven_size() -> None:
    for of_wires in run_world(4, average):
        for wire, dtype in WIRES.items():
            # Small integers and halves of them are exact in every type; 65,000 is rounded to it once.
            largest = torch.tensor(65_000.0).to(dtype).item()
            assert of_wires[wire] == [2.5 * number for number in range(7)] + 7 * [largest]
