"""What a store must survive: a process that dies at a chosen moment (played in process: from then on nothing changes on
the disk any more), and a disk that is full."""

import errno
import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest

from winze import atomic as files

CHANGES = ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate", "pwrite")


class Death(BaseException):
    """What kill -9 is to a process; no `except Exception` survives it."""


class Disk:
    """Counts every call that changes the disk; at number `last` the process is dead, in the middle of that call."""

    def __init__(self, last=None):
        self.count, self.last = 0, last

    @property
    def dead(self):
        return self.last is not None and self.count > self.last

    def next(self):
        if not self.dead:
            self.count += 1
        return self.dead

    def dying(self, change):
        def changed(*args, **kwargs):
            if self.next():
                raise Death
            return change(*args, **kwargs)

        return changed

    def filling(self, fill):
        def filled(file, content):
            if self.next():
                if isinstance(content, bytes):
                    file.write(content[: len(content) // 2])
                    file.flush()
                raise Death
            return fill(file, content)

        return filled


@contextmanager
def death_at(last=None):
    """Die at the disk's change number `last` (None: live, and count the changes)."""
    disk = Disk(last)
    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, disk.dying(getattr(os, name)))
        patch.setattr(files, "_fill", disk.filling(files._fill))
        try:
            yield disk
        except Death:
            if not disk.dead:
                raise


def every_death(work, fresh):
    """Call `work` on a fresh start again and again, dead one change later each time, until it lives to the end."""
    last = 0
    while True:
        place = fresh(last)
        with death_at(last) as disk:
            work(place)
        if not disk.dead:
            return
        yield place
        last += 1


@contextmanager
def small_disk(folder, size):
    """A disk of its own of so many bytes; the test is skipped where this user may not mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "winze-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def full_disk_after(writes):
    """So many files can still be written, then there is no room left."""
    fill, calls = files._fill, []

    def filled(file, content):
        calls.append(file)
        if len(calls) > writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fill(file, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_fill", filled)
        yield
