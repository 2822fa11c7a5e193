"""Imported by the process that workers are forked from: it takes one step, so that none of them has to.

The first step and the first readings of a process import parts of torch that take seconds. One thread does all of it: a
process with further threads must not fork.
"""

import torch

from winze.play.depth_profile import profile
from winze.play.settings import Arm, Setup
from winze.play.trainer import Trainer
from winze.shape import ResidualDropPath

torch.set_num_threads(1)
_trainer = Trainer(Setup(points=64, arms=(Arm(), Arm(rule=ResidualDropPath(), optimizer="SGD"))))
_trainer.step()
profile(_trainer.learners[0].net, _trainer.train, _trainer.test, 2)
