"""Where a network looks, by GradCAM (Selvaraju et al., 2017), computed by the package grad-cam."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from winze.data import Squares, with_squares
from winze.lab import Prepared
from winze.networks import NetworkError
from winze.readings import Array, Readings
from winze.report.experiment.image_sheets import image_sheets, tiled

SIDE = 4  # pixels that a feature map has at least, to say where the network looks


def check_gradcam(net: nn.Module) -> None:
    """Raise unless the package is installed and the network has convolutions."""
    _package()
    if not any(isinstance(module, nn.Conv2d) for module in net.modules()):
        raise ValueError(f"gradcam: {type(net).__name__} has no convolutions, which GradCAM needs")


def store_saliency(readings: Readings, before: nn.Module, prepared: Prepared, square: Squares, count: int) -> None:
    """Add the maps of some test images with class-coded squares, and how much of each map lies on the square."""
    images, labels = (part[:count] for part in prepared.dataset.test)
    painted = with_squares(images, labels, square)
    inside = (painted != images).any(1).numpy()
    readings.arrays["gradcam/images"] = painted.numpy()
    for name, net in (("before", before), ("after", prepared.net)):
        maps = saliency(net, prepared.fed(painted), labels)
        readings.arrays[f"gradcam/{name}"] = maps
        share = [float(one[where].sum() / max(one.sum(), 1e-9)) for one, where in zip(maps, inside, strict=True)]
        readings.add(f"gradcam on the square {name}", float(np.mean(share)), n=count)


def saliency(net: nn.Module, x: Tensor, labels: Tensor) -> Array:
    """GradCAM [sample, height, width] of each sample's own class, at the last convolution with a map to speak of."""
    cam, target = _package()
    net.eval()
    with cam(model=net, target_layers=[_layer(net, x[:1])]) as computed, torch.enable_grad():
        found: Array = computed(input_tensor=x, targets=[target(int(label)) for label in labels])
    return found.astype(np.float32)


def _layer(net: nn.Module, x: Tensor) -> nn.Module:
    seen: list[tuple[nn.Module, int]] = []
    with ExitStack() as hooks, torch.no_grad():
        for module in (one for one in net.modules() if isinstance(one, nn.Conv2d)):
            hook = module.register_forward_hook(lambda own, _, out: seen.append((own, min(out.shape[2:]))))
            hooks.enter_context(hook)
        net(x)
    large = [module for module, side in seen if side >= min(SIDE, max(side for _, side in seen))]
    return large[-1]


def _package() -> tuple[Any, Any]:
    try:
        from pytorch_grad_cam import GradCAM
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
    except ImportError as error:
        raise NetworkError("gradcam needs the package grad-cam: pip install 'winze[gradcam]'") from error
    return GradCAM, ClassifierOutputTarget


def _sheet(arrays: Mapping[str, Array]) -> Array:
    """Six images in a row, and below each what the network looks at."""
    from matplotlib import colormaps

    images = arrays["gradcam/images"][:6] / 255
    maps = [colormaps["viridis"](arrays[f"gradcam/{name}"][:6])[..., :3] for name in ("before", "after")]
    seen = [0.4 * images + 0.6 * one.transpose(0, 3, 1, 2) for one in maps]
    return tiled(np.stack([np.broadcast_to(images, seen[0].shape), *seen]))


below = "from above: image, before task 1, after task 1"
sheets = image_sheets("GradCAM before and after task 1", "gradcam/after", _sheet, below=below)
