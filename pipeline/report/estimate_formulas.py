"""Every formula of an estimate with its values, a line each: what `explain=true` prints. Torch-free."""

from collections.abc import Iterator
from math import ceil

from pipeline.config.wall_time import clock
from pipeline.estimate.algorithms import phases_of
from pipeline.estimate.averaging import Averaged
from pipeline.estimate.fitted_wall_time import MARGIN, fitted
from pipeline.estimate.network import Wiring
from pipeline.estimate.phases import Estimate, Phase
from pipeline.estimate.prediction import Prediction
from pipeline.estimate.run import BYTES_OF_WIRE, PACKED_BYTES_PER_S, StageTime, exchanges, samples
from pipeline.estimate.step import spans

GIGA = 1e9


def formulas(found: Prediction) -> Iterator[str]:
    """The lines, from a layer's multiplications to node-hours."""
    yield from _network(found)
    yield from _backward(found)
    yield from _bucket(found)
    for one in found.run.stages:
        yield from _stage(found, one)
    yield from _run(found)


def _network(found: Prediction) -> Iterator[str]:
    site = found.config.site.network
    yield "step of messages = latency of the highest level crossed + busiest link's bytes / its rate"
    for name, link in (("worker", site.worker), ("node", site.node), ("rack", site.rack)):
        if link is not None:
            yield f"  {name}: {link.latency_us:g} us, {link.gb_per_s:g} GB/s"


def _backward(found: Prediction) -> Iterator[str]:
    layers = found.model.layers
    forward = sum(one.multiplications for one in layers)
    backward = sum(one.backward_multiplications for one in layers)
    yield (
        f"forward share = F / (F + B) = {forward / GIGA:.3f} / ({forward / GIGA:.3f} + {backward / GIGA:.3f}) "
        f"= {found.model.forward:.4f}; F, B: 1e9 multiplications an image, forward "
        f"and backward, over {len(layers)} layers"
    )


def _bucket(found: Prediction) -> Iterator[str]:
    model, config = found.model, found.config
    wire = BYTES_OF_WIRE[config.allreduce.wire]
    wiring = model.wiring(model.plan.workers)
    yield (
        f"buckets: gradients from the last layer on, closed at {config.allreduce.bucket_mb:g} MiB of fp32; "
        f"bytes = elements x {wire} ({config.allreduce.wire})"
    )
    averaged = model.averaged(model.plan.grid, wiring)
    for number, (bucket, one) in enumerate(zip(model.buckets, averaged, strict=True), start=1):
        yield (
            f"  bucket {number}: {bucket.elements:,} x {wire} = {one.size_bytes / 1e6:.2f} MB, ready after "
            f"{100 * bucket.ready:.1f} % of the backward pass, in chunks of "
            f"{min(one.chunk_bytes, one.size_bytes) / 1e6:.3g} MB: {1e3 * one.time_s:.3f} ms"
        )
    largest = max(range(len(averaged)), key=lambda number: averaged[number].size_bytes)
    phases = [_phases(found, one, wiring) for one in averaged]
    yield (
        f"{model.all_reduce.name} on {model.plan.grid} of {averaged[largest].size_bytes / 1e6:.2f} MB, "
        "phase = steps x latency + busiest link's bytes / its rate:"
    )
    for phase in phases[largest].phases:
        yield _phase(phase, wiring)
    yield "time of a bucket = first chunk + (chunks - 1) x max(slowest phase, busiest link):"
    for number, (one, theirs) in enumerate(zip(averaged, phases, strict=True), start=1):
        chunks = max(1, ceil(one.size_bytes / one.chunk_bytes))
        first = sum(phase.load.latency_s + phase.load.transfer_s / chunks for phase in theirs.phases)
        pace = max((phase.interval_s(chunks) for phase in theirs.phases), default=0.0)
        yield (
            f"  bucket {number}: {1e3 * first:.5g} + {chunks - 1} x max({1e3 * pace:.5g}, "
            f"{1e3 * theirs.busiest_s / chunks:.5g}) = {1e3 * one.time_s:.4f} ms"
        )


def _phases(found: Prediction, one: Averaged, wiring: Wiring) -> Estimate:
    """The phases of one bucket's all-reduce."""
    plan, all_reduce = found.model.plan, found.model.all_reduce
    return phases_of(
        all_reduce.name, one.size_bytes, (plan.grid.vertical, plan.grid.horizontal), wiring,
        colors=all_reduce.colors, threshold_bytes=all_reduce.ring_from_bytes,
    )  # fmt: skip


def _phase(phase: Phase, wiring: Wiring) -> str:
    load, steps = phase.load, phase.steps
    sums = f"{1e3 * load.latency_s:.4f} + {1e3 * load.transfer_s:.4f} = {1e3 * load.time_s:.4f} ms"
    if phase.streams or not steps:
        return f"  {phase.name}: {steps} steps, {sums}"
    busiest = int((load.link_bytes / wiring.rates_bytes_per_s).argmax())
    link_bytes, rate = load.link_bytes[busiest], wiring.rates_bytes_per_s[busiest]
    return (
        f"  {phase.name}: {steps} steps x {1e6 * load.latency_s / steps:g} us + {link_bytes / 1e6:.4f} MB / "
        f"{rate / GIGA:g} GB/s ({wiring.kind_of(busiest)}) = {sums}"
    )


def _stage(found: Prediction, one: StageTime) -> Iterator[str]:
    stage, step, alone = one.stage, one.step, one.on_one_node
    batch, speed = stage.per_worker_batch, found.model.speed
    here = found.model.averaged(found.model.plan.grid, found.model.wiring(found.model.plan.workers))
    per_s = batch / speed.seconds(batch)
    yield f"stage from epoch {stage.start_epoch}:"
    yield (
        f"  computing = micro-batches x images / images a second = {stage.micro_batches} x {batch} / {per_s:.4g} "
        f"= {1e3 * step.compute_s:.3f} ms ({speed.words()})"
    )
    yield (
        f"  no overlap = computing + all buckets = {1e3 * step.compute_s:.3f} + {1e3 * step.averaging_s:.3f} "
        f"= {1e3 * step.no_overlap_s:.3f} ms"
    )
    spans_s = spans(speed.seconds(batch), stage.micro_batches, found.model.forward, found.model.buckets, here)
    before_s = 0.0
    for number, ((ready_s, done_s), bucket) in enumerate(zip(spans_s, here, strict=True), start=1):
        yield (
            f"  bucket {number} done = max(ready, the one before done) + its time = max({1e3 * ready_s:.3f}, "
            f"{1e3 * before_s:.3f}) + {1e3 * bucket.time_s:.3f} = {1e3 * done_s:.3f} ms"
        )
        before_s = done_s
    yield (
        "  full overlap = computing + what is left of the buckets, each begun when it is ready and the one before is "
        f"done = {1e3 * step.compute_s:.3f} + {1e3 * step.exposed_s:.3f} = {1e3 * step.full_overlap_s:.3f} ms"
    )
    yield (
        f"  time = updates x update = {one.updates:,} x ({1e3 * step.full_overlap_s:.3f} … "
        f"{1e3 * step.no_overlap_s:.3f} ms) = {one.time_s.low:.2f} … {one.time_s.high:.2f} s"
    )
    yield (
        f"  on one node, {found.model.of_one_node[0]}: no overlap {1e3 * alone.compute_s:.3f} + "
        f"{1e3 * alone.averaging_s:.3f} = {1e3 * alone.no_overlap_s:.3f} ms, full overlap "
        f"{1e3 * alone.compute_s:.3f} + {1e3 * alone.exposed_s:.3f} = {1e3 * alone.full_overlap_s:.3f} ms"
    )
    yield (
        f"  efficiency = update on one node / update = {1e3 * alone.no_overlap_s:.3f} / {1e3 * step.no_overlap_s:.3f} "
        f"… {1e3 * alone.full_overlap_s:.3f} / {1e3 * step.full_overlap_s:.3f} = {one.efficiency.low:.2f} … "
        f"{one.efficiency.high:.2f} %"
    )


def _run(found: Prediction) -> Iterator[str]:
    run, hardware = found.run, found.config.site.hardware
    yield (
        f"start = {run.start_s:g} s, the site's profile"
        if hardware.start_s is not None
        else "start: not known, left out"
    )
    yield from _samples(found)
    if not found.config.data.synthetic:
        times, images = found.model.validations(run.stages)
        yield (
            f"validation = validations x images a worker / images a second x forward share = {times} x {images} / "
            f"{images / found.model.speed.seconds(images):.4g} x {found.model.forward:.4f} = {run.validation_s:.3f} s"
        )
    total, hours, updates = run.total_s, run.node_hours, run.training_s
    yield (
        f"total = start + staging + updates + exchange + validation = {run.start_s:g} + {run.staging_s:.2f} + "
        f"({updates.low:.2f} … {updates.high:.2f}) + ({run.exchange_s.low:g} … {run.exchange_s.high:.2f}) + "
        f"{run.validation_s:.3f} = {total.low:.2f} … {total.high:.2f} s"
    )
    yield (
        f"node-hours = nodes x total / 3600 = {run.nodes} x ({total.low:.2f} … {total.high:.2f}) / 3600 "
        f"= {hours.low:.3f} … {hours.high:.3f}"
    )
    yield from _wall_time(found)


def _samples(found: Prediction) -> Iterator[str]:
    """Staging and exchange."""
    config, run = found.config, found.run
    placement, staged, moved = samples(config, found.model.plan, run.nodes)
    read = config.site.hardware.read_gb_per_s
    rate = f"{read:g} GB/s" if read else "a rate that is not known"
    yield f"staging ({placement}) = bytes a node / rate = {staged / GIGA:.3f} GB / {rate} = {run.staging_s:.2f} s"
    if not moved:
        yield "exchange: none"
        return
    slowest = found.model.exchange_rate_bytes_per_s(run.nodes)
    yield (
        f"exchange = exchanges x bytes a node / min(packing {PACKED_BYTES_PER_S / GIGA:g} GB/s, links) = "
        f"{exchanges(config, run.stages)} x {moved / GIGA:.4f} GB / {slowest / GIGA:.4g} GB/s = "
        f"{run.exchange_s.high:.2f} s, or with the training: 0"
    )


def _wall_time(found: Prediction) -> Iterator[str]:
    site, high = found.config.site, found.run.total_s.high
    limited = site.limits.hours is not None and site.reservation is None
    yield (
        f"wall time = {MARGIN:g} x total's upper end + time to save = {MARGIN:g} x {high:.2f} + "
        f"{site.requeue.lead_s} = {MARGIN * high + site.requeue.lead_s:.0f} s, up to ten minutes"
        f"{f', at most {site.limits.hours:g} h' if limited else ''}: {clock(fitted(found.config, found.run))}"
    )
