"""What workers tell each other beside tensors: values of JSON, as bytes of a tensor.

torch.distributed's own calls for objects unpickle what arrives, so whoever could speak to the store of the ranks, which
asks nobody for a password, could run code in every rank. Here nothing that arrives is more than text.
"""

import json
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

MOST_BYTES = 1024


def tell_all(value: Any, group: dist.ProcessGroup | None = None) -> Any:
    """Rank 0's `value`, on every rank; what the others give does not matter. A value of JSON of at most MOST_BYTES."""
    packed = _packed(value if dist.get_rank() == 0 else None)
    dist.broadcast(packed, src=0, group=group)
    return _unpacked(packed)


def gather(value: Any, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Everybody's `value`, by rank: values of JSON of at most MOST_BYTES each."""
    rows = [torch.empty(MOST_BYTES, dtype=torch.uint8) for _ in range(dist.get_world_size(group))]
    dist.all_gather(rows, _packed(value), group=group)
    return [_unpacked(row) for row in rows]


def _packed(value: Any) -> Tensor:
    """(MOST_BYTES,) uint8: the text, and blanks behind it, which JSON passes over."""
    content = json.dumps(value).encode()
    assert len(content) <= MOST_BYTES, f"{len(content)} bytes are no small message"
    return torch.frombuffer(bytearray(content.ljust(MOST_BYTES)), dtype=torch.uint8)


def _unpacked(packed: Tensor) -> Any:
    return json.loads(bytes(packed.tolist()))
