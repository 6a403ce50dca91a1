"""Batch-norm statistics: micro-batches on one worker are workers, and averages are exact."""

import torch
import torch.distributed as dist
from torch import nn

from pipeline.batch_norm import BatchNormStatistics
from tests.worlds import run_world


def network() -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2, momentum=0.3))


def micro_batches(update: int, count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(update)
    return [torch.randn(5, 3, 4, 4, generator=generator) + part for part in range(count)]


def test_micro_batches_leave_what_the_mean_over_workers_would_be() -> None:
    torch.manual_seed(0)
    one = network().double()
    workers = [network().double() for _ in range(4)]
    for worker in workers:
        worker.load_state_dict(one.state_dict())
    statistics = BatchNormStatistics(one, None, 1)
    for update in range(3):
        for index, part in enumerate(micro_batches(update, 4)):
            statistics.use_micro_batch(index, 4)
            one(part.double())
            workers[index](part.double())
    expected = torch.stack([BatchNormStatistics(worker, None, 1).flatten() for worker in workers]).mean(0)
    torch.testing.assert_close(statistics.flatten(), expected, rtol=1e-12, atol=1e-12)


def test_without_moving_averages_they_are_the_mean_over_the_last_updates_batches() -> None:
    torch.manual_seed(0)
    model = nn.BatchNorm2d(3).double()
    statistics = BatchNormStatistics(model, None, 1, last_batch=True)
    for update in range(2):
        for index, part in enumerate(micro_batches(update, 4)):
            statistics.use_micro_batch(index, 4)
            model(part.double())
    last = [part.double() for part in micro_batches(1, 4)]
    means = torch.stack([part.mean((0, 2, 3)) for part in last]).mean(0)
    variances = torch.stack([part.transpose(0, 1).flatten(1).var(1) for part in last]).mean(0)
    torch.testing.assert_close(statistics.flatten(), torch.cat([means, variances]), rtol=1e-12, atol=1e-12)


def average(rank: int, size: int, store: dist.Store) -> list[float]:
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    model = network()
    statistics = BatchNormStatistics(model, dist.group.WORLD, size)
    statistics.restore(torch.arange(10.0) * (rank + 1))
    statistics.average()
    return statistics.flatten().tolist()


def test_the_mean_over_three_workers_is_exact_and_alike() -> None:
    for flat in run_world(3, average):
        assert flat == [2.0 * number for number in range(10)]


def test_a_network_without_batch_norm_has_nothing_to_average() -> None:
    statistics = BatchNormStatistics(nn.Linear(2, 2), None, 1)
    statistics.average()
    assert statistics.flatten().numel() == 0
