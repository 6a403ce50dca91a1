"""Reading images where they lie."""

import os
from types import TracebackType
from typing import Self

from pipeline.data.prepare.source import StoredImage
from pipeline.errors import UserError

KEPT_OPEN = 64
"""Files. To open one asks a parallel file system's metadata server, and images of a shard come from all over a tar."""


class Reader:
    """Reads images, and keeps the files open that it read last: `with Reader() as reader: reader.read(image)`."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def read(self, image: StoredImage) -> bytes:
        """The bytes of an image. Raises UserError where they are not there any more."""
        try:
            content = os.pread(self._descriptor(image.file), image.size, image.offset)
        except OSError as error:
            raise UserError(f"{image.file} cannot be read: {error.strerror}") from None
        if len(content) != image.size:
            raise UserError(f"{image.file} became shorter meanwhile: {image.name} is not whole any more")
        return content

    def _descriptor(self, path: str) -> int:
        if path not in self._descriptors:
            if len(self._descriptors) == KEPT_OPEN:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))
            self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # of a pipe it waits
        return self._descriptors[path]
