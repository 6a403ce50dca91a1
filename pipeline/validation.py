"""Top-1 accuracy on the validation images, each counted exactly once over all workers."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from pipeline.data.loader import Batch


def count_correct(model: nn.Module, batches: Iterable[Batch], device: torch.device) -> Tensor:
    """(correct, seen) of a worker's images, shape (2,) int64 on the CPU. Batch-norm uses its running statistics."""
    training = model.training
    model.eval()
    counts = torch.zeros(2, dtype=torch.int64)
    for batch in batches:  # outside: a decoder's threads could not write to tensors that are made in inference mode
        with torch.inference_mode():
            predicted = model(batch.images.to(device)).argmax(1).cpu()
        counts += torch.tensor([int((predicted == batch.labels).sum()), len(batch.labels)])
    model.train(training)
    return counts
