"""Reading of PNG images with Pillow."""

from __future__ import annotations

import io
from types import ModuleType
from typing import TYPE_CHECKING

from optsmith._errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pillow() -> ModuleType:
    """Return the module `PIL.Image`, imported on first use.

    Raises:
        DataError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise DataError("PNG images need Pillow: pip install 'optsmith[images]'") from None
    return Image


def read_png(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return an image as an array of shape (rows, columns, 3).

    Args:
        content: Content of a PNG file with 8-bit RGB pixels.
        name: Name of the file in error messages.

    Raises:
        DataError: The file is damaged or has another format, or Pillow is not installed.
    """
    import numpy as np

    image = pillow()
    try:
        with image.open(io.BytesIO(content), formats=("PNG",)) as picture:
            if picture.mode != "RGB":
                raise DataError(f"{name} has mode {picture.mode} instead of RGB")
            return np.asarray(picture)
    except image.UnidentifiedImageError:
        raise DataError(f"{name} is not a PNG image") from None
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise DataError(f"{name} is truncated or damaged: {error}") from None
