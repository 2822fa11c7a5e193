"""A CUDA graph's stand-in on a CPU: it replays a step with the Python state of the moment of capture."""

import random

import numpy as np

from winze.train.captured import CudaGraph


class FrozenPython(CudaGraph):
    """Takes the plain step, but with the plain attributes of all modules and the RNG of Python as they were."""

    pool = None

    def __init__(self, step, pool=None):
        self.step, self.modules = (
            step,
            [m for one in step.__self__.plain.update.modules.values() for m in one.modules()],
        )
        self.then, self.rng = (
            [self._attributes(module) for module in self.modules],
            (random.getstate(), np.random.get_state()),
        )

    @staticmethod
    def works_on(device):
        return True

    @staticmethod
    def warm(step):
        step()

    def replay(self):
        now = [self._attributes(module) for module in self.modules]
        self._set(self.then)
        random.setstate(self.rng[0])
        np.random.set_state(self.rng[1])
        try:
            return self.step()
        finally:
            self._set(now)

    def _set(self, attributes):
        for module, plain in zip(self.modules, attributes, strict=True):
            for name in self._attributes(module).keys() - plain.keys():
                del vars(module)[name]
            vars(module).update(plain)

    @staticmethod
    def _attributes(module):
        return {name: value for name, value in vars(module).items() if isinstance(value, int | float | str | tuple)}
