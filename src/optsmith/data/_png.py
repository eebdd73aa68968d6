"""PNG images, read with Pillow: some packages keep a dataset as pictures."""

from __future__ import annotations

import io
from types import ModuleType
from typing import TYPE_CHECKING

from optsmith._errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pillow() -> ModuleType:
    """Return Pillow's module of images, which is imported on first use.

    Raises:
        DataError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise DataError("PNG images need Pillow: pip install 'optsmith[images]'") from None
    return Image


def read_png(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return a picture as an array of shape (rows, columns, 3).

    Args:
        content: The file, of 8-bit red, green and blue.
        name: What to call it in errors.

    Raises:
        DataError: It is damaged, or of another kind, or Pillow is not installed.
    """
    import numpy as np

    image = pillow()
    try:
        with image.open(io.BytesIO(content), formats=("PNG",)) as picture:
            if picture.mode != "RGB":
                raise DataError(f"{name} is of mode {picture.mode} instead of RGB")
            return np.asarray(picture)
    except image.UnidentifiedImageError:
        raise DataError(f"{name} is not a PNG image") from None
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise DataError(f"{name} is truncated or damaged: {error}") from None
