"""Ctrl-C before the command has even been imported."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import soon

from winze import interrupt


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc to see that torch is being imported")
def test_ctrl_c_while_importing_ends_the_command_in_one_line():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may have it ignored
    command = [sys.executable, "-m", "winze", "list"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    soon(lambda: "libtorch" in Path(f"/proc/{process.pid}/maps").read_text())
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert said == "winze: interrupted; nothing was done yet, the same command starts again\n"


@pytest.mark.parametrize(
    ("words", "is_command"),
    [
        (["python", "-m", "winze", "list"], True),
        (["python", "-u", "-m", "winze"], True),
        (["python3.11", "/usr/bin/winze", "list"], True),
        (["python", "-m", "pytest", "winze"], False),
        (["python", "-c", "import winze"], False),
        (["python", "script.py", "winze"], False),
        (["python"], False),
    ],
)
def test_only_the_command_itself_takes_ctrl_c(monkeypatch, words, is_command):
    monkeypatch.setattr(sys, "orig_argv", words)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt.guard_import()
        assert (signal.getsignal(signal.SIGINT) is not signal.default_int_handler) == is_command
        interrupt.import_is_over()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "winze"])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interrupt.guard_import()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
