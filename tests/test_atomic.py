import errno
import os
import subprocess
import sys

import pytest
from deaths import death_at, every_death, small_disk

from winze.atomic import StoreError, remove_leftovers, sha256, write_atomically


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_bytes_arrive(tmp_path):
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["n" * 250 + ".json", "ö" * 127])
def test_a_name_as_long_as_a_disk_takes_is_written(tmp_path, name):
    write_atomically(tmp_path / name, b"whole")
    assert (tmp_path / name).read_bytes() == b"whole"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_where_the_temporary_file_will_be_is_not_followed(tmp_path):
    (tmp_path / "other").write_bytes(b"theirs")
    (tmp_path / f".a.{os.getpid()}").symlink_to(tmp_path / "other")
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "other").read_bytes() == b"theirs"
    assert sorted(names(tmp_path)) == ["a", "other"]


def test_a_function_writes_into_the_open_file(tmp_path):
    write_atomically(tmp_path / "a", lambda file: file.write(b"by hand"))
    assert (tmp_path / "a").read_bytes() == b"by hand"


def test_whenever_the_process_dies_the_file_is_the_old_or_the_new_one(tmp_path):
    def fresh(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a").write_bytes(b"old")
        return folder

    seen = []
    for folder in every_death(lambda folder: write_atomically(folder / "a", b"newer"), fresh):
        seen.append((folder / "a").read_bytes())
        remove_leftovers(folder)
        assert names(folder) == ["a"]
    assert set(seen) == {b"old", b"newer"}
    assert len(seen) >= 4


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    code = f"""
import os
from pathlib import Path
from winze import atomic
def half(file, content):
    file.write(content[:3]); file.flush(); os._exit(9)
atomic._fill = half
atomic.write_atomically(Path({str(tmp_path)!r}) / "a", b"newer")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert (tmp_path / "a").read_bytes() == b"old"
    assert len(names(tmp_path)) == 2
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_in_words_and_leaves_the_old_file(tmp_path, number):
    def full(file):
        file.write(b"half")
        raise OSError(number, os.strerror(number))

    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(StoreError, match=r"disk is full.*a could not be written.*make room"):
        write_atomically(tmp_path / "a", full)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_other_errors_of_the_system_stay_what_they_are(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "a", b"")


def test_a_disk_that_is_really_full_leaves_the_old_file(tmp_path):
    with small_disk(tmp_path / "small", 2**18) as disk:
        write_atomically(disk / "a", b"old")
        with pytest.raises(StoreError, match=r"disk is full.*0 MiB free"):
            write_atomically(disk / "a", b"x" * 2**19)
        assert (disk / "a").read_bytes() == b"old"
        assert names(disk) == ["a"]


def test_leftovers_are_only_what_was_being_written(tmp_path):
    for name in (".a.123", "a.123", ".hidden", "run.json", ".a.tmp"):
        (tmp_path / name).touch()
    (tmp_path / ".folder.12").mkdir()
    remove_leftovers(tmp_path)
    assert set(names(tmp_path)) == {"a.123", ".hidden", "run.json", ".a.tmp", ".folder.12"}


def test_the_hash_is_the_files(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert sha256(tmp_path / "a").startswith("e3b0c44298fc1c14")


def test_the_play_of_death_stops_everything(tmp_path):
    with death_at(0):
        try:
            (tmp_path / "a").mkdir()
        finally:
            (tmp_path / "b").mkdir()
    assert names(tmp_path) == []
