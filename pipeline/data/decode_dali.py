"""Decoding with NVIDIA DALI: one pipeline for a whole run, fed with as many images as there are.

One that reads headers stands before it. In DALI 2.4.0 a header that its decoders cannot read may end the whole process
(it does in batches of 64, not in batches of 16): they throw in the calling thread while the pool's threads still work
on that thread's variables. Reading headers alone waits for the pool first.

Everything random is drawn outside and passed in, so the batch may change from call to call: DALI's own crops would
change with it. No end of an epoch reaches the pipeline, so nothing has to be reset, refilled or rebuilt.

On CUDA, JPEGs are decoded by nvJPEG and resized on the GPU, and the pixels stay there as uint8 in NHWC order: a quarter
of fp32's memory, and the order in which fp16 convolutions want their channels. That path follows DALI's documentation
and has not run on a GPU yet.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from nvidia.dali import fn, types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.tensors import TensorCPU, TensorListCPU
from torch import Tensor

from pipeline.data.decode import Decoded, UndecodableError, Views, too_small

MAX_BATCH = 256
"""Images in one run of the pipeline; more are decoded in several. A run costs as much as ten tiny images."""
FAULTS = ("nvImageCodec failure: '#3'", "nvImageCodec failure: '#4'", "Failed to decode sample")
"""Words of errors that are an image's fault: nvImageCodec's BAD_CODESTREAM and CODESTREAM_UNSUPPORTED, and a decoder
that gave up. Others are the machine's."""


class DaliDecoder:
    """Decodes on `threads` threads of DALI's own."""

    def __init__(self, size: int, *, threads: int = 1, device: torch.device | None = None) -> None:
        """size: height and width of the pixels that come out. device: a CUDA device, or None for the CPU."""
        gpu = device if device is not None and device.type == "cuda" else None
        self._stream = None if gpu is None else torch.cuda.Stream(gpu)
        self._headers = headers_pipeline()
        self._pixels = pixels_pipeline(size, threads, None if gpu is None else gpu.index)
        self._zeros = torch.zeros(1, size, size, 3, dtype=torch.uint8, device=gpu)
        self._lock = threading.Lock()

    def decode(self, views: Views) -> Decoded:
        with self._lock:  # a pipeline serves one thread at a time
            return self._in_parts(views, MAX_BATCH)

    def _in_parts(self, views: Views, most: int) -> Decoded:
        """Decode at most `most` images a run."""
        pixels: list[Tensor] = []
        faults: dict[int, str] = {}
        for number, part in enumerate(views.parts(most)):
            decoded = self._part(part)
            pixels.append(decoded.pixels)
            faults |= {number * most + place: fault for place, fault in decoded.faults.items()}
        return Decoded(pixels[0] if len(pixels) == 1 else torch.cat(pixels), faults)

    def _part(self, views: Views) -> Decoded:
        """Decode in one run. One bad image fails a run, so a run that failed is halved until the bad ones are alone."""
        try:
            return Decoded(self._run(views))
        except (UndecodableError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not any(words in str(error) for words in FAULTS):
                raise
            if len(views) == 1:
                return Decoded(self._zeros, {0: explain(error, len(views.images[0]))})
        return self._in_parts(views, (len(views) + 1) // 2)

    def _run(self, views: Views) -> Tensor:
        """One run of the pipeline: (n, size, size, 3) uint8."""
        images = wrap(views.images)
        edges = views.windows.astype(np.int32)
        self._check_headers(images, edges[:, :2] + edges[:, 2:])
        (output,) = self._pixels.run(
            self._stream,
            images=images,
            starts=np.ascontiguousarray(edges[:, :2]),
            shapes=np.ascontiguousarray(edges[:, 2:]),
            mirrors=views.mirrors.astype(np.int32),
        )
        return self._take(output)

    def _check_headers(self, images: Any, ends: NDArray[np.int32]) -> None:
        """Raise where a header cannot be read or a window's end, (n, 2): bottom, right, lies outside its image."""
        (output,) = self._headers.run(images=images)
        sizes = output.as_array()[:, :2]
        outside = (ends > sizes).any(axis=1)
        if outside.any():
            height, width = sizes[outside.argmax()].tolist()
            raise too_small(width, height)

    def _take(self, output: Any) -> Tensor:
        """What a run left, as a tensor."""
        if self._stream is None:
            return torch.from_dlpack(output.as_tensor())
        with torch.cuda.stream(self._stream):
            pixels = torch.from_dlpack(output.as_tensor()).clone()  # DALI takes its own memory back at the next run
        self._stream.synchronize()
        pixels.record_stream(torch.cuda.current_stream(self._stream.device))
        return pixels


def headers_pipeline() -> Any:
    """Images in; (height, width, channels) of each out, from its header."""
    pipeline = new_pipeline(1, None)
    with pipeline:
        pipeline.set_outputs(fn.peek_image_shape(images_input(), adjust_orientation=False))
    pipeline.build()
    return pipeline


def pixels_pipeline(size: int, threads: int, gpu: int | None) -> Any:
    """Images, starts, shapes, mirrors in; (size, size, 3) uint8 of each out."""
    pipeline = new_pipeline(threads, gpu)
    with pipeline:
        starts, shapes = (
            fn.external_source(name=name, no_copy=True, dtype=types.INT32, ndim=1) for name in ("starts", "shapes")
        )
        mirrors = fn.external_source(name="mirrors", no_copy=True, dtype=types.INT32, ndim=0)
        cut = fn.decoders.image_slice(
            images_input(),
            device="cpu" if gpu is None else "mixed",
            start=starts,
            shape=shapes,
            axes=[0, 1],
            adjust_orientation=False,
            jpeg_fancy_upsampling=True,  # libjpeg's default, hence Pillow's and torchvision's
            output_type=types.RGB,
        )
        resized = fn.resize(cut, size=[size, size], interp_type=types.INTERP_LINEAR, antialias=True)
        pipeline.set_outputs(fn.flip(resized, horizontal=mirrors))
    pipeline.build()
    return pipeline


def new_pipeline(threads: int, gpu: int | None) -> Any:
    """An empty pipeline; gpu: None where there is no libcuda.

    exec_dynamic: of DALI's executors the only one that lives on after a bad image.
    """
    return Pipeline(batch_size=MAX_BATCH, num_threads=threads, device_id=gpu, prefetch_queue_depth=1, exec_dynamic=True)


def images_input() -> Any:
    """Encoded images, read where they lie in the node's memory."""
    return fn.external_source(name="images", no_copy=True, dtype=types.UINT8, ndim=1)


def wrap(images: Sequence[NDArray[np.uint8]]) -> Any:
    """Arrays as DALI's own list, without a copy. Given the arrays, DALI would do the same in twice the time."""
    tensor: Any = TensorCPU  # DALI's stubs lag behind its signatures
    tensor_list: Any = TensorListCPU
    return tensor_list([tensor(image, "") for image in images], "", contiguous=False)


def explain(error: Exception, size: int) -> str:
    """What is wrong with an image of `size` bytes, in words; of DALI's many lines none says more."""
    return str(error) if isinstance(error, UndecodableError) else f"DALI finds no whole image in its {size:,} bytes"
