"""Workers on a Ray cluster; a job on a lost node is retried elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from winze.lab.workers.workers import Done, Hear, LostError, Work, Workers, attempt
from winze.progress import heard

TRIES = 3
SECONDS = 8.0  # seconds within which a cluster has to answer


class RayError(ValueError):
    """A Ray cluster that cannot be used."""


class OnRay(Workers):
    """Workers on the cluster at RAY_ADDRESS, or on one that is started here; `share` tasks on each GPU or machine.

    Tasks get 1 / share of a GPU (`gpu`; None: where the cluster has one), or of a machine's cores. Files that they
    write must be on a disk that all machines share.
    """

    def __init__(self, share: int = 1, gpu: bool | None = None) -> None:
        if share < 1:
            raise ValueError(f"jobs at once must be at least 1, got {share}")
        self._ray = _imported()
        self._ours = not self._ray.is_initialized()
        self._sigterm: Any = None
        if self._ours:
            self._connect()
        resources = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        gpu = any(one.get("GPU", 0) >= 1 for one in resources) if gpu is None else gpu
        kind = "GPU" if gpu else "CPU"
        machines = [one for one in resources if one.get(kind, 0) >= 1]
        if not machines:
            self.close()
            raise RayError(f"the Ray cluster has no {kind}")
        units = [int(one["GPU"]) if gpu else 1 for one in machines]
        self.size = share * sum(units)
        cores = min(one.get("CPU", 0) / (share * unit) for one, unit in zip(machines, units, strict=True))
        self._needs = {"num_cpus": int(cores) if cores >= 1 else cores, "num_gpus": 1 / share if gpu else 0}
        self.threads = max(1, int(cores))

    def run(self, work: Work, tasks: Sequence[Any], hear: Hear | None = None) -> Iterator[Done]:
        ray = self._ray
        remote = ray.remote(**self._needs, max_retries=TRIES)(_attempt)
        mail = ray.remote(num_cpus=0)(_Mailbox).remote() if hear is not None else None
        call = ray.put(work)
        running = {remote.remote(call, task, index, self.threads, mail): index for index, task in enumerate(tasks)}
        pulse = _Pulse(ray.get_runtime_context().gcs_address)
        try:
            while running:
                ready, _ = ray.wait(list(running), num_returns=1, timeout=0.5)
                pulse.check()
                if hear is not None:
                    self._pass_on(mail, hear)
                for reference in ready:
                    yield self._ended(running.pop(reference), reference)
        finally:
            for reference in running if pulse.beats else ():
                ray.cancel(reference, force=True)

    def close(self) -> None:
        """Disconnect from the cluster, and stop it if it was started here."""
        if self._ours:
            self._ray.shutdown()
        if self._sigterm is not None:
            signal.signal(signal.SIGTERM, self._sigterm)
            self._sigterm = None

    def _connect(self) -> None:
        address = os.environ.get("RAY_ADDRESS") or None
        if address is not None:
            _knock(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        alone = {"include_dashboard": False} if address is None else {}
        try:
            self._ray.init(address=address, logging_level="ERROR", log_to_driver=False, **alone)
        except Exception as error:
            raise RayError(f"Ray at {address or 'this machine'} cannot be used: {error}") from error
        if threading.current_thread() is threading.main_thread():  # Ray's own handler would abort in C++
            self._sigterm = signal.signal(signal.SIGTERM, signal.default_int_handler)

    def _ended(self, index: int, reference: Any) -> Done:
        try:
            return Done(index, *self._ray.get(reference))
        except self._ray.exceptions.RayTaskError as error:  # the result could not be pickled or unpickled
            return Done(index, error=RuntimeError(str(error.cause)))
        except self._ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            return Done(
                index, error=LostError(f"{TRIES + 1} workers died while running it, the last one with: {first}")
            )

    def _pass_on(self, mail: Any, hear: Hear) -> None:
        try:
            words = self._ray.get(mail.take.remote(), timeout=5)
        except self._ray.exceptions.RayError:  # its node is gone: ignore all later errors
            return
        for index, word in words:
            hear(index, word)


class _Pulse:
    """Detects that a cluster is gone; Ray would end this process a minute later without a message."""

    def __init__(self, address: str) -> None:
        self.address, self.beats = address, True
        self._last = time.monotonic()
        self._is_heard = self._answers()  # a client outside a cluster cannot reach its head

    def check(self) -> None:
        """Raise where the head of the cluster has not answered for `SECONDS`; once a second at most."""
        now = time.monotonic()
        if now - self._last < 1 or not self._is_heard:
            return
        if self._answers():
            self._last = now
        elif now - self._last > SECONDS:
            self.beats = False
            raise RayError(
                f"the Ray cluster at {self.address} is gone; finished runs are kept, and the same command resumes the "
                "others"
            )

    def _answers(self) -> bool:
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
        except (OSError, ValueError):
            return False
        return True


class _Mailbox:
    """Stores reports of jobs until they are fetched."""

    def __init__(self) -> None:
        self.words: dict[int, Any] = {}

    def put(self, index: int, word: Any) -> None:
        self.words[index] = word

    def take(self) -> list[tuple[int, Any]]:
        words, self.words = list(self.words.items()), {}
        return words


def _attempt(work: Work, task: Any, index: int, threads: int, mail: Any) -> tuple[Any, Exception | None]:
    import torch

    torch.set_num_threads(threads)
    with heard(lambda word: mail is not None and mail.put.remote(index, word)):
        return attempt(work, task)


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise RayError('--on ray needs Ray: pip install "winze[ray]"') from error
    return ray


def _knock(address: str) -> None:
    """Raise unless a Ray cluster answers at an address; Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise RayError(f"RAY_ADDRESS is {address!r}; it should read HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS).close()
    except OSError as error:
        raise RayError(
            f"Ray at {address} does not answer ({error}); is the cluster up? The address is the value of RAY_ADDRESS"
        ) from error
    if address.startswith("ray://"):
        return
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise RayError(
            f"the server at {address} is not a Ray cluster; the address is the value of RAY_ADDRESS"
        ) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise RayError(f"Ray at {address} is unhealthy: {said}")
