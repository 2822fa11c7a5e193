"""The Inception network whose features FID is defined in, from weights that lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.networks.network_error import NetworkError, one_line

FOLDERS = "WINZE_WEIGHTS"
FIDELITY = ("weights-inception-2015-12-05-6726825d.pth", "pt_inception-2015-12-05-6726825d.pth")
TORCHVISION = ("inception_v3_google-0cc3c7bd.pth", "inception_v3_google-1a9a5a14.pth")
SIDE = 299


class MissingWeightsError(NetworkError, FileNotFoundError):
    """Weights that are nowhere to be found; the message says where they were searched for."""


class Inception(nn.Module):
    """Pooled Inception features [sample, 2048] of images on the scale 0-1; `name` says whose weights they are of.

    With the weights of TensorFlow's network, by torch-fidelity, a Fréchet distance in them is FID (Heusel et al.,
    2017, arXiv 1706.08500). With torchvision's it is close to FID but not to be compared with published numbers.
    """

    def __init__(self, net: nn.Module, name: str, bytes_in: bool) -> None:
        super().__init__()
        self.net, self.name, self.bytes_in = net.eval(), name, bytes_in

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        self.net.to(images.device)
        return torch.cat([self._features(one) for one in images.split(100)])

    def _features(self, images: Tensor) -> Tensor:
        x = images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images
        if self.bytes_in:  # torch-fidelity takes bytes and resizes as TensorFlow does
            found: Tensor = self.net((255 * x.clamp(0, 1)).round().byte())[0]
            return found
        x = F.interpolate(x, (SIDE, SIDE), mode="bilinear", antialias=True)
        features: Tensor = self.net(2 * x - 1)
        return features


def inception(folders: Sequence[str | os.PathLike[str]] = ()) -> Inception:
    """The network with the first weights found: in `folders`, in $WINZE_WEIGHTS, in torch's own folder of downloads.

    torch-fidelity's file needs that package; torchvision's does not. Nothing is downloaded.
    """
    places = _places(folders)
    for place in places:
        for kind, names in (("torch-fidelity", FIDELITY), ("torchvision", TORCHVISION)):
            for name in names:
                if (place / name).is_file():
                    made = _fidelity(place / name) if kind == "torch-fidelity" else _torchvision(place / name)
                    return Inception(made, f"Inception by {kind}", kind == "torch-fidelity")
    raise MissingWeightsError(
        f"no weights of Inception: looked for {', '.join((*FIDELITY, *TORCHVISION))} in {', '.join(map(str, places))}; "
        f"put one of them there, or name its folder in ${FOLDERS}"
    )


def _places(folders: Sequence[str | os.PathLike[str]]) -> list[Path]:
    named = [part for part in os.environ.get(FOLDERS, "").split(os.pathsep) if part]
    return [Path(one).expanduser() for one in (*folders, *named)] + [Path(torch.hub.get_dir()) / "checkpoints"]


def _fidelity(path: Path) -> nn.Module:
    try:
        from torch_fidelity.feature_extractor_inceptionv3 import (  # type: ignore[import-not-found,unused-ignore]
            FeatureExtractorInceptionV3,
        )
    except ImportError as error:
        raise NetworkError(f"{path} needs another package: pip install torch-fidelity") from error
    try:
        made: nn.Module = FeatureExtractorInceptionV3("inception", ["2048"], feature_extractor_weights_path=str(path))
    except Exception as error:
        raise NetworkError(f"{path} does not hold torch-fidelity's Inception: {one_line(error)}") from error
    return made


def _torchvision(path: Path) -> nn.Module:
    from torchvision.models import inception_v3

    net = inception_v3(weights=None, init_weights=False, transform_input=False)
    try:
        net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:
        raise NetworkError(f"{path} does not hold torchvision's Inception: {one_line(error)}") from error
    net.fc = nn.Identity()
    return net
