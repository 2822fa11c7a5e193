"""Images with a class for every pixel: a folder with images/NAME.* and masks/NAME.png."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from winze.data.data_error import DataError, MissingDataError, reading
from winze.data.sources.image_folder import SUFFIXES
from winze.data.sources.search import roots


def load_segments(name: str, side: int) -> tuple[UInt8[Tensor, "n 3 side side"], UInt8[Tensor, "n side side"]]:
    """Images and the classes of their pixels, both brought to squares; classes by the nearest pixel.

    `name` is a folder, or a folder's name in $WINZE_DATA. A mask is a grey or palette image whose values are classes;
    255 marks pixels that do not count.
    """
    places = list(dict.fromkeys([Path(name).expanduser(), *(root / name for root in roots())]))
    root = next((one for one in places if (one / "images").is_dir()), None)
    if root is None:
        looked = ", ".join(str(one / "images") for one in places)
        raise MissingDataError(f"no folder of images with masks: looked for {looked}")
    files = sorted(one for one in (root / "images").iterdir() if one.suffix.lower() in SUFFIXES)
    if not files:
        raise DataError(f"{root / 'images'} holds no image ({', '.join(sorted(SUFFIXES))})")
    pairs = [(one, root / "masks" / f"{one.stem}.png") for one in files]
    for image, mask in pairs:
        if not mask.is_file():
            raise DataError(f"{image} has no mask: {mask} is not there")
    return torch.stack([_image(one, side) for one, _ in pairs]), torch.stack([_mask(one, side) for _, one in pairs])


def _image(path: Path, side: int) -> Tensor:
    from PIL import Image

    with reading(path, "image"), Image.open(path) as opened:
        squared = opened.convert("RGB").resize((side, side), Image.Resampling.BICUBIC)
        return torch.from_numpy(np.asarray(squared).copy()).permute(2, 0, 1)


def _mask(path: Path, side: int) -> Tensor:
    from PIL import Image

    with reading(path, "mask"), Image.open(path) as opened:
        if opened.mode not in ("L", "P", "1"):
            raise DataError(f"{path} is not a mask: it needs one value per pixel, not {opened.mode}")
        squared = opened.resize((side, side), Image.Resampling.NEAREST)
        return torch.from_numpy(np.asarray(squared).astype(np.uint8).copy())
