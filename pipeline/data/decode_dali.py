"""Decoding with NVIDIA DALI: one pipeline for a whole run, fed with as many images as there are.

One that reads headers stands before it. In DALI 2.4.0 a header that its decoders cannot read may end the whole process
(it does in batches of 64, not in batches of 16): they throw in the calling thread while the pool's threads still work
on that thread's variables. Reading headers alone waits for the pool first.

Everything random is drawn outside and passed in, so the batch may change from call to call: DALI's own crops would
change with it. No end of an epoch reaches the pipeline, so nothing has to be reset, refilled or rebuilt.

On the CPU DALI decodes and cuts out; torch resizes, which takes a quarter of the time that DALI takes for it. Small
images DALI resizes too: there a call an image would cost more than its work. Which of them does it follows from
data.image_size alone.

On CUDA, JPEGs are decoded by nvJPEG and resized on the GPU, and the pixels stay there as uint8 in NHWC order: a quarter
of fp32's memory, and the order in which fp16 convolutions want their channels. The GPU's hardware decoder is off: it
takes a share of each batch and rounds otherwise than nvJPEG's kernels, so pixels would change with the batch. That path
follows DALI's documentation and has not run on a GPU yet; `make bench-gpu` compares it with the CPU's.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from nvidia.dali import fn, types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.tensors import TensorCPU, TensorListCPU
from torch import Tensor

from pipeline.data.decode import Decoded, UndecodableError, Views, too_small
from pipeline.data.resize import resize

MAX_BATCH = 256
"""Images in one run of the pipeline; more are decoded in several. A run costs as much as ten tiny images."""
PIXELS_A_RUN = 2**25
"""Of all windows in one run: 100 MB. A batch of photographs as cameras take them would fill gigabytes."""
TORCH_RESIZES_FROM = 64
"""Height and width, in pixels, of what comes out, from which torch resizes on the CPU."""
DEVICE_BYTES_PER_PIXEL, HOST_BYTES_PER_PIXEL = 5.5, 3.7
"""Of the largest image, for nvJPEG's buffers: 211,025,920 and 140,544,512 bytes for ImageNet's 5980 x 6430 pixels in
DALI's own example of a ResNet-50. A thread has one buffer on the device and two, page-locked, on the host."""
FAULTS = ("nvImageCodec failure: '#3'", "nvImageCodec failure: '#4'", "Failed to decode sample")
"""Words of errors that are an image's fault: nvImageCodec's BAD_CODESTREAM and CODESTREAM_UNSUPPORTED, and a decoder
that gave up. Others are the machine's."""


class DaliDecoder:
    """Decodes on `threads` threads of DALI's own, and resizes on as many."""

    def __init__(
        self,
        size: int,
        *,
        threads: int = 1,
        device: torch.device | None = None,
        largest: tuple[int, int] | None = None,
    ) -> None:
        """size: height and width of the pixels that come out. device: a CUDA device, or None for the CPU.

        largest: width and height of the largest image; None: nvJPEG's memory grows when one comes.
        """
        gpu = device if device is not None and device.type == "cuda" else None
        self._stream = None if gpu is None else torch.cuda.Stream(gpu)
        self._headers = headers_pipeline()
        self._resizer = Resizer(size, threads) if gpu is None and size >= TORCH_RESIZES_FROM else None
        self._pixels = (
            pixels_pipeline(size, threads, None if gpu is None else gpu.index, largest)
            if self._resizer is None
            else windows_pipeline(threads)
        )
        self._zeros = torch.zeros(1, size, size, 3, dtype=torch.uint8, device=gpu)
        self._lock = threading.Lock()

    def decode(self, views: Views) -> Decoded:
        with self._lock:  # a pipeline serves one thread at a time
            return self._in_parts(views, MAX_BATCH)

    def _in_parts(self, views: Views, most: int) -> Decoded:
        """Decode at most `most` images a run."""
        pixels: list[Tensor] = []
        faults: dict[int, str] = {}
        first = 0
        for part in views.parts(most, PIXELS_A_RUN):
            decoded = self._part(part)
            pixels.append(decoded.pixels)
            faults |= {first + place: fault for place, fault in decoded.faults.items()}
            first += len(part)
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
        inputs = {
            "images": images,
            "starts": np.ascontiguousarray(edges[:, :2]),
            "shapes": np.ascontiguousarray(edges[:, 2:]),
        }
        if self._resizer is not None:
            (windows,) = self._pixels.run(**inputs)
            return self._resizer.resize(windows, views.mirrors)
        (output,) = self._pixels.run(self._stream, **inputs, mirrors=views.mirrors.astype(np.int32))
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


class Resizer:
    """Resizes windows with torch, in the calling thread or in `threads` of its own."""

    def __init__(self, size: int, threads: int) -> None:
        self._size = size
        self._threads = ThreadPoolExecutor(threads, "resizer") if threads > 1 else None

    def resize(self, windows: Any, mirrors: NDArray[np.bool_]) -> Tensor:
        """windows: DALI's list of n; returns (n, size, size, 3) uint8."""
        pixels = torch.empty(len(mirrors), self._size, self._size, 3, dtype=torch.uint8)

        def resize_into(place: int, mirror: bool) -> None:
            pixels[place] = resize(torch.from_dlpack(windows[place]), self._size, mirror=mirror)

        for _ in (map if self._threads is None else self._threads.map)(resize_into, range(len(mirrors)), mirrors):
            pass
        return pixels


def headers_pipeline() -> Any:
    """Images in; (height, width, channels) of each out, from its header."""
    pipeline = new_pipeline(1, None)
    with pipeline:
        pipeline.set_outputs(fn.peek_image_shape(images_input(), adjust_orientation=False))
    pipeline.build()
    return pipeline


def windows_pipeline(threads: int) -> Any:
    """Images, starts, shapes in; each one's window out, (height, width, 3) uint8."""
    pipeline = new_pipeline(threads, None)
    with pipeline:
        pipeline.set_outputs(cut_out({"device": "cpu"}))
    pipeline.build()
    return pipeline


def pixels_pipeline(size: int, threads: int, gpu: int | None, largest: tuple[int, int] | None) -> Any:
    """Images, starts, shapes, mirrors in; (size, size, 3) uint8 of each out."""
    pipeline = new_pipeline(threads, gpu)
    with pipeline:
        mirrors = fn.external_source(name="mirrors", no_copy=True, dtype=types.INT32, ndim=0)
        cut = cut_out({"device": "cpu"} if gpu is None else on_gpu(largest))
        resized = fn.resize(cut, size=[size, size], interp_type=types.INTERP_LINEAR, antialias=True)
        pipeline.set_outputs(fn.flip(resized, horizontal=mirrors))
    pipeline.build()
    return pipeline


def cut_out(where: dict[str, Any]) -> Any:
    """The windows of images, decoded; where: the decoder's device and its memory."""
    starts, shapes = (
        fn.external_source(name=name, no_copy=True, dtype=types.INT32, ndim=1) for name in ("starts", "shapes")
    )
    return fn.decoders.image_slice(
        images_input(),
        start=starts,
        shape=shapes,
        axes=[0, 1],
        adjust_orientation=False,
        jpeg_fancy_upsampling=True,  # libjpeg's default, hence Pillow's and torchvision's
        output_type=types.RGB,
        **where,
    )


def on_gpu(largest: tuple[int, int] | None) -> dict[str, Any]:
    """Arguments of a decoder on the GPU. largest: width and height of the largest image; None: not known.

    nvJPEG's buffers grow when an image needs more than they have, and all of the GPU waits meanwhile; so each thread's
    are made large enough at the start, never smaller than DALI makes them.
    """
    arguments: dict[str, Any] = {"device": "mixed", "hw_decoder_load": 0.0}
    if largest is not None:
        pixels = largest[0] * largest[1]
        arguments["device_memory_padding"] = max(16 << 20, round(pixels * DEVICE_BYTES_PER_PIXEL))
        arguments["host_memory_padding"] = max(8 << 20, round(pixels * HOST_BYTES_PER_PIXEL))
    return arguments


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
