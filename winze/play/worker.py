"""The process that trains for one page: it takes messages between steps and sends frames as the page asks for them."""

from __future__ import annotations

import json
import math
import signal
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from winze.networks import SpiralMLP
from winze.observe import scan
from winze.play.depth_profile import glance
from winze.play.frames import pack
from winze.play.live_profiles import Budget, LiveProfiles
from winze.play.nodes import COLUMNS, DECISION, FINE, ROWS, Focus, View, decisions, focused, node_maps
from winze.play.settings import SettingsError, Setup, catalogue, parse, plain, whole
from winze.play.snapshots import Snapshots
from winze.play.snippet import snippet
from winze.play.trainer import Trainer
from winze.report import write

AHEAD = 2  # update frames that the page has not yet acknowledged
FASTEST = 1 / 28  # seconds between two updates
MAPS_SHARE, GLANCE_SHARE = 0.3, 0.02  # of the time, at most, that maps and accuracies take
DECIDED = 8  # while it trains, every so many updates show the decision over the plane anew
SHOWN = 1500  # training points that the page draws
MOST_STEPS = 1000  # of one "step" message
MOST_LOSSES = 4096  # that wait for a page
LIMIT = 10_000_000  # steps after which training stops by itself


def main(connection: Connection) -> None:
    """Serve one page until it goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server closes the pipe when it is interrupted
    torch.set_num_threads(1)
    try:
        Worker(connection).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        connection.close()


class Worker:
    """The state of one page's training."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.view = View()
        self.waiting = self.sent = 0
        self.focus: Focus | None = None
        self.shown: int | None = None
        self.old: list[SpiralMLP] = []
        self.problem = ""
        self.maps, self.glances = Budget(MAPS_SHARE, FASTEST), Budget(GLANCE_SHARE)
        self.build(Setup())

    def run(self) -> None:
        """Take messages, train, read, send; wait for a message where there is nothing to do."""
        self.send(pack("hello", {"catalogue": catalogue()}))
        self.announce()
        while True:
            idle = not (self.running or self.stale or self.profiles.is_reading)
            if idle or (self.waiting >= AHEAD and not self.running):
                self.take(self.connection.recv_bytes())
            while self.connection.poll():
                self.take(self.connection.recv_bytes())
            if self.running:
                self.train()
            self.read()
            if self.waiting < AHEAD and (self.stale or self.running) and (self.maps.is_due or not self.running):
                self.update()

    # ---- what the page asks for

    def take(self, message: bytes) -> None:
        """Act on one message; what it does wrong is answered, and nothing changes."""
        try:
            told = json.loads(message)
            action = ACTIONS.get(str(told.get("do")))
            if action is None:
                raise SettingsError(f"a message is an object whose `do` is one of {', '.join(ACTIONS)}")
            action(self, told)
        except (EOFError, OSError):  # the page has gone
            raise
        except Exception as error:  # whatever one message breaks, the training goes on
            self.send(pack("error", {"message": (str(error) or type(error).__name__)[:300]}))

    def setup_(self, told: dict[str, Any]) -> None:
        until = whole(told, "until", 0, LIMIT, 0)
        self.build(parse(told.get("settings")))
        self.announce()
        self.running, self.until = until > 0, until

    def reset_(self, told: dict[str, Any]) -> None:
        self.build(self.trainer.setup)
        self.announce()

    def resume_(self, told: dict[str, Any]) -> None:
        """The page is connected again: send all that is shown, and what it missed."""
        self.send(pack("resumed", {"step": self.trainer.steps}))
        self.waiting, self.fresh, self.stale = 0, not self.profiles.is_reading, True

    def start_(self, told: dict[str, Any]) -> None:
        if self.problem:
            raise SettingsError(f"{self.problem}; reset to train again")
        self.running, self.shown, self.stale, self.until = True, None, True, 0
        self.speed, self.began = 0.0, (time.monotonic(), self.trainer.steps)

    def pause_(self, told: dict[str, Any]) -> None:
        self.running, self.stale = False, True
        self.reread()

    def step_(self, told: dict[str, Any]) -> None:
        self.running, self.shown = False, None
        for _ in range(whole(told, "count", 1, MOST_STEPS, 1)):
            if not self.problem:
                self.one_step()
        self.stale = True
        self.reread()

    def show_(self, told: dict[str, Any]) -> None:
        """Show a past step, the nearest that was kept, or the present one."""
        self.running = False
        step = told.get("step")
        if step is None or whole(told, "step", 0, LIMIT) >= self.trainer.steps:
            self.shown = None
        else:
            self.shown = self.past.nearest(step)
            self.old = self.past.networks(self.shown, self.live)
        self.stale = True
        self.reread()

    def view_(self, told: dict[str, Any]) -> None:
        self.view = View(whole(told, "columns", 1, COLUMNS), whole(told, "rows", 1, ROWS))
        self.stale = True

    def focus_(self, told: dict[str, Any]) -> None:
        if told.get("net") is None:
            self.focus = None
            return
        net = whole(told, "net", 0, len(self.live) - 1)
        self.focus = Focus(net, whole(told, "layer", 0, 64), whole(told, "node", 0, 31))
        self.stale = True

    def ack_(self, told: dict[str, Any]) -> None:
        """The page has drawn a frame."""
        self.waiting = max(0, self.waiting - 1)

    def code_(self, told: dict[str, Any]) -> None:
        which = whole(told, "net", 0, len(self.live) - 1, 0)
        setup = self.trainer.setup
        self.send(pack("code", {"net": which, "text": snippet(setup, setup.arms[which], self.step)}))

    def report_(self, told: dict[str, Any]) -> None:
        """Scan the network on the page and send the scan's own report."""
        which = whole(told, "net", 0, len(self.live) - 1, 0)
        setup = self.trainer.setup
        name = f"{'AB'[which]}: {type(setup.arms[which].rule).__name__}"
        found = scan(self.nets[which], self.trainer.train, self.trainer.test, name=setup.data, progress=False)
        with tempfile.TemporaryDirectory() as folder:
            page = write({name: found.readings}, Path(folder) / "report.html", figures=False).read_bytes()
        self.send(pack("report", {"net": which}, {"page": np.frombuffer(page, np.uint8)}))

    # ---- training

    def build(self, setup: Setup) -> None:
        """Start afresh with these settings."""
        self.trainer = Trainer(setup)
        self.live = [learner.net for learner in self.trainer.learners]
        self.past = Snapshots.of(self.live)
        self.past.add(0, self.live)
        self.old, self.shown = [], None
        self.running, self.problem = False, ""
        self.until = 0  # the step that a link asks for, at which training pauses; 0: none
        self.losses: list[list[float]] = []  # since the last update: the step, then one loss per network
        self.profiles = LiveProfiles(len(self.live))
        self.glances.due = 0.0
        self.fresh = False
        self.speed, self.began = 0.0, (time.monotonic(), 0)
        self.focus = None
        self.stale = True
        self.reread()

    @property
    def nets(self) -> list[SpiralMLP]:
        """The networks that are shown: of now, or of a past step."""
        return self.live if self.shown is None else self.old

    def train(self) -> None:
        """Take steps for a moment."""
        end = time.monotonic() + 0.008
        while self.running and time.monotonic() < end:
            self.one_step()
        now = time.monotonic()
        since, step = self.began
        if now - since > 1:
            self.speed, self.began = (self.trainer.steps - step) / (now - since), (now, self.trainer.steps)

    def one_step(self) -> None:
        found = self.trainer.step()
        self.losses.append([self.trainer.steps, *found])
        if len(self.losses) > MOST_LOSSES:  # the page is away: neighbours are merged
            self.losses = _table(self.losses, 1 + len(found)).tolist()
        self.past.add(self.trainer.steps, self.live)
        if not all(map(math.isfinite, found)):
            lost = " and ".join(f"network {'AB'[i]}" for i, loss in enumerate(found) if not math.isfinite(loss))
            which = lost if len(found) > 1 else "the network"
            self.problem = f"{which} diverged at step {self.trainer.steps}: try a lower learning rate"
        elif self.trainer.steps >= LIMIT:
            self.problem = f"training stops after {LIMIT:,} steps"
        if self.problem or (self.running and self.trainer.steps == self.until):
            self.running, self.stale = False, True
            self.reread()

    # ---- reading and sending

    @property
    def step(self) -> int:
        """The step that is shown."""
        return self.trainer.steps if self.shown is None else self.shown

    def reread(self) -> None:
        """Read the depth profile of what is shown, from the start."""
        self.profiles.begin(self.trainer, self.nets, self.step)
        self.profiles.budget.due = 0.0

    def read(self) -> None:
        """Do one piece of the depth profile, if it is time for one."""
        is_due = self.profiles.budget.is_due
        if not self.profiles.is_reading and self.running and is_due:
            self.profiles.begin(self.trainer, self.nets, self.step)
        if self.profiles.is_reading and (is_due or not self.running) and self.profiles.piece():
            self.fresh = self.stale = True

    def announce(self) -> None:
        """Send the settings as they are understood, and the points."""
        trainer = self.trainer
        x, y = (part[:SHOWN] for part in trainer.train)
        facts = {
            "settings": plain(trainer.setup),
            "parameters": [sum(one.numel() for one in net.parameters()) for net in self.live],
            "per_epoch": trainer.source.steps,
        }
        self.send(pack("setup", facts, {"points": x.numpy(), "labels": y.numpy().astype(np.uint8)}))

    def update(self) -> None:
        """Send what is shown now: maps, weights, losses, and the depth profile where it is new."""
        begun = time.monotonic()
        arrays: dict[str, Any] = {}
        nets: list[dict[str, Any]] = []
        glances = not self.running or self.glances.is_due
        for i, net in enumerate(self.nets):
            arrays |= {f"{i}/{name}": array for name, array in node_maps(net, self.view).items()}
            if not self.running or self.sent % DECIDED == 0:
                side = DECISION if self.running else FINE
                arrays[f"{i}/decision"] = decisions(net, self.trainer.setup.arms[i].objective, side)
            nets.append({"layers": self.view.layers(net), "nodes": self.view.nodes(net)})
            if glances:
                nets[-1]["glance"] = self.glance(net)
            if self.fresh:
                profile = self.profiles.found[i]
                nets[-1]["profile"] = {**profile.facts, "step": profile.step}
                arrays |= {f"{i}/{name}": array for name, array in profile.arrays.items()}
        if self.focus is not None and self.focus.net < len(self.nets):
            arrays |= focused(self.nets[self.focus.net], self.focus)
        arrays["losses"] = _table(self.losses, 1 + len(self.live))
        facts = {
            "step": self.step,
            "last": self.trainer.steps,
            "epoch": self.trainer.epoch,
            "live": self.shown is None,
            "running": self.running,
            "speed": self.speed if self.running else 0.0,
            "problem": self.problem,
            "kept": self.past.steps,
            "nets": nets,
            "focus": None if self.focus is None else [self.focus.net, self.focus.layer, self.focus.node],
        }
        self.losses, self.fresh, self.stale = [], False, False
        self.waiting, self.sent = self.waiting + 1, self.sent + 1
        self.send(pack("update", facts, arrays))
        self.maps.spent(time.monotonic() - begun)

    def glance(self, net: SpiralMLP) -> dict[str, float]:
        begun = time.monotonic()
        found = glance(net, self.trainer.train, self.trainer.test)
        self.glances.spent((time.monotonic() - begun) * len(self.nets))
        return found

    def send(self, frame: bytes) -> None:
        self.connection.send_bytes(frame)


ACTIONS = {
    "setup": Worker.setup_,
    "reset": Worker.reset_,
    "resume": Worker.resume_,
    "start": Worker.start_,
    "pause": Worker.pause_,
    "step": Worker.step_,
    "show": Worker.show_,
    "view": Worker.view_,
    "focus": Worker.focus_,
    "ack": Worker.ack_,
    "code": Worker.code_,
    "report": Worker.report_,
}


def _table(rows: list[list[float]], width: int) -> np.ndarray[Any, np.dtype[Any]]:
    """Losses as an array; of very many, the mean of groups, so that a frame stays small."""
    table = np.array(rows, dtype=np.float64).reshape(-1, width)
    if len(table) > 256:
        table = np.stack([part.mean(0) for part in np.array_split(table, 256)])
    return table.astype(np.float32)
