"""Every formula of an estimate with its values, a line each: what `explain=true` prints. Torch-free."""

from collections.abc import Iterator

from pipeline.estimate.algorithms import phases_of
from pipeline.estimate.fitted_wall_time import MARGIN
from pipeline.estimate.prediction import Prediction
from pipeline.estimate.run import BYTES_OF_WIRE, PACKED_BYTES_PER_S, StageTime, exchanges, samples

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
    largest = max(averaged, key=lambda one: one.size_bytes)
    grid = model.plan.grid.vertical, model.plan.grid.horizontal
    found_phases = phases_of(
        model.all_reduce.name, largest.size_bytes, grid, wiring, colors=model.all_reduce.colors,
        threshold_bytes=model.all_reduce.ring_from_bytes,
    )  # fmt: skip
    chunks = max(1, -(-int(largest.size_bytes) // largest.chunk_bytes))
    name, megabytes = model.all_reduce.name, largest.size_bytes / 1e6
    yield f"{name} on {model.plan.grid} of {megabytes:.2f} MB, phase = latency + transfer:"
    for phase in found_phases.phases:
        load = phase.load
        yield (
            f"  {phase.name}: {phase.steps} steps, {1e3 * load.latency_s:.4f} + {1e3 * load.transfer_s:.4f} "
            f"= {1e3 * load.time_s:.4f} ms"
        )
    first = sum(phase.load.latency_s + phase.load.transfer_s / chunks for phase in found_phases.phases)
    pace = max((phase.interval_s(chunks) for phase in found_phases.phases), default=0.0)
    busiest = found_phases.busiest_s / chunks
    yield (
        f"  pipelined = first chunk + (chunks - 1) x max(slowest phase, busiest link) = {1e3 * first:.4f} + "
        f"{chunks - 1} x max({1e3 * pace:.4f}, {1e3 * busiest:.4f}) = "
        f"{1e3 * (first + (chunks - 1) * max(pace, busiest)):.4f} ms"
    )


def _stage(found: Prediction, one: StageTime) -> Iterator[str]:
    stage, step, alone = one.stage, one.step, one.on_one_node
    batch, speed = stage.per_worker_batch, found.model.speed
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
    yield (
        "  full overlap = computing + what is left of the buckets, each begun when it is ready and the one before is "
        f"done = {1e3 * step.compute_s:.3f} + {1e3 * step.exposed_s:.3f} = {1e3 * step.full_overlap_s:.3f} ms"
    )
    yield (
        f"  time = updates x update = {one.updates:,} x ({1e3 * step.full_overlap_s:.3f} … "
        f"{1e3 * step.no_overlap_s:.3f} ms) = {one.time_s.low:.2f} … {one.time_s.high:.2f} s"
    )
    yield (
        f"  efficiency = update on one node / update = {1e3 * alone.no_overlap_s:.3f} / {1e3 * step.no_overlap_s:.3f} "
        f"… {1e3 * alone.full_overlap_s:.3f} / {1e3 * step.full_overlap_s:.3f} = {one.efficiency.low:.2f} … "
        f"{one.efficiency.high:.2f} %"
    )


def _run(found: Prediction) -> Iterator[str]:
    config, run = found.config, found.run
    placement, staged, moved = samples(config, found.model.plan, run.nodes)
    read = config.site.hardware.read_gb_per_s
    yield f"start = {run.start_s:g} s, the site's profile"
    rate = f"{read:g} GB/s" if read else "not known"
    yield f"staging ({placement}) = bytes a node / rate = {staged / GIGA:.3f} GB / {rate} = {run.staging_s:.2f} s"
    yield (
        f"exchange = exchanges x bytes a node / min(packing {PACKED_BYTES_PER_S / GIGA:g} GB/s, links) = "
        f"{exchanges(config, run.stages)} x {moved / GIGA:.4f} GB = {run.exchange_s.high:.2f} s, or with the "
        "training: 0"
    )
    yield f"validation = validations x images a worker, forward only = {run.validation_s:.3f} s"
    total, hours = run.total_s, run.node_hours
    yield f"total = start + staging + updates + exchange + validation = {total.low:.2f} … {total.high:.2f} s"
    yield f"node-hours = nodes x total / 3600 = {run.nodes} x … = {hours.low:.3f} … {hours.high:.3f}"
    yield (
        f"wall time = {MARGIN:g} x total's upper end + {config.site.requeue.lead_s} s to save, up to ten minutes, "
        "at most what the site grants"
    )
