"""Readings come back from their folder exactly, or with a clear error."""

import contextlib
import hashlib
import io
import json
import math
import os
import subprocess
import sys
import threading
import zipfile
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from winze import readings as module
from winze.atomic import StoreError
from winze.place import Place
from winze.readings import COLUMNS, Readings, ReadingsError

HARD_FLOATS = [0.1 + 0.2, 1 / 3, 5e-324, -0.0, 1.7976931348623157e308, math.inf, -math.inf, math.nan]


def some(value: float = 0.5) -> Readings:
    readings = Readings(conventions={"pool": "mean", "samples": 450})
    for index, name in enumerate(("early", "middle", "late")):
        for data, split in (("digits", "train"), ("digits", "test"), ("usps", "test")):
            readings.add("probe", value + index, place=Place(index, 3, name), data=data, split=split, n=450)
    readings.add("accuracy", 0.9, data="digits", split="test", note="of the whole network")
    readings.arrays["cka"] = np.arange(9.0).reshape(3, 3) * value
    return readings


def same(one: Readings, other: Readings) -> bool:
    rows = [repr(astuple(row)) for row in one.rows] == [repr(astuple(row)) for row in other.rows]
    arrays = one.arrays.keys() == other.arrays.keys() and all(
        one.arrays[name].tobytes() == other.arrays[name].tobytes()
        and one.arrays[name].dtype == other.arrays[name].dtype
        and one.arrays[name].shape == other.arrays[name].shape
        for name in one.arrays
    )
    return rows and arrays and one.conventions == other.conventions


def test_the_columns_are_the_agreed_ones():
    assert " ".join(COLUMNS) == "step data split place index total measure value low high n note"


def test_what_was_saved_is_what_is_loaded(tmp_path):
    some().save(tmp_path)
    assert same(Readings.load(tmp_path), some())


@pytest.mark.parametrize("value", HARD_FLOATS)
def test_every_float_comes_back_to_the_last_bit(tmp_path, value):
    readings = Readings()
    readings.add("rank", value, low=value, high=value)
    readings.save(tmp_path)
    assert repr(Readings.load(tmp_path).rows) == repr(readings.rows)


@pytest.mark.parametrize("text", ["a,b", 'say "so"', "two\nlines", "é λ 漢", "", "=1+1", "nan", " padded "])
def test_every_text_comes_back_to_the_last_character(tmp_path, text):
    readings = Readings()
    readings.add("rank", 1.0, place=text, data=text, split=text, note=text)
    readings.save(tmp_path)
    assert same(Readings.load(tmp_path), readings)


def test_foreign_line_ends_become_the_one_that_csv_keeps(tmp_path):
    readings = Readings()
    readings.add("rank", 1.0, note="one\r\ntwo\rthree")
    readings.save(tmp_path)
    assert Readings.load(tmp_path).rows[0].note == "one\ntwo\nthree"


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.empty((0, 4), np.float32),
        np.array([True, False]),
        np.array(["cat", "dög"]),
        np.arange(6, dtype=">i4").reshape(2, 3).T,
        np.array([np.nan, np.inf, -0.0], dtype=np.float16),
    ],
    ids=lambda array: str(array.dtype),
)
@pytest.mark.parametrize("name", ["cka", "spectrum/layer1.0", "file", "x.npy", "digits test"])
def test_every_plain_array_comes_back_under_its_name(tmp_path, array, name):
    Readings(arrays={name: array}).save(tmp_path)
    loaded = Readings.load(tmp_path).arrays
    assert list(loaded) == [name]
    assert loaded[name].dtype == array.dtype
    np.testing.assert_array_equal(loaded[name], array)


def test_numpy_numbers_are_stored_as_plain_ones(tmp_path):
    readings = Readings()
    readings.add("rank", np.float32(0.5), n=np.int64(7), step=np.int32(2))
    readings.save(tmp_path)
    assert "0.5,,,7" in (tmp_path / "readings.csv").read_text()


def test_pandas_reads_the_stored_rows_as_the_table_has_them(tmp_path):
    import pandas

    some().save(tmp_path)
    stored = pandas.read_csv(tmp_path / "readings.csv")
    assert list(stored.columns) == list(COLUMNS)
    np.testing.assert_array_equal(stored["value"], some().table["value"])


def test_the_table_has_whole_numbers_where_they_are_whole():
    table = some().select(measure="probe").table
    assert str(table["index"].dtype) == "int64"
    assert str(some().table["index"].dtype) == "Int64"


def test_the_table_of_nothing_has_the_columns():
    assert list(Readings().table.columns) == list(COLUMNS)


def test_a_selection_matches_all_that_was_asked():
    chosen = some().select(measure="probe", data="digits", split="train")
    assert [row.place for row in chosen.rows] == ["early", "middle", "late"]
    assert {(row.data, row.split) for row in chosen.rows} == {("digits", "train")}


def test_a_curve_follows_the_index_and_not_the_order_of_adding():
    readings = Readings()
    for index in (2, 0, 10, 1):
        readings.add("rank", float(index), place=str(index), index=index, total=11)
    np.testing.assert_array_equal(readings.curve("rank"), [0, 1, 2, 10])


def test_a_curve_left_open_is_the_first_data_its_test_part_and_the_last_step():
    readings = Readings()
    for step in (5, 20, 10):
        for data in ("own", "other"):
            for split in ("train", "test"):
                value = step + 100 * (data == "other") + 1000 * (split == "train")
                readings.add("probe", value, place=Place(0, 1, "a"), data=data, split=split, step=step)
    assert readings.curve("probe").tolist() == [20.0]
    assert readings.curve("probe", data="other", split="train", step=5).tolist() == [1105.0]


def test_a_curve_keeps_nan_for_dead_places():
    readings = Readings()
    readings.add("rank", math.nan, place=Place(0, 2, "dead"), note="constant")
    readings.add("rank", 3.0, place=Place(1, 2, "alive"))
    np.testing.assert_array_equal(readings.curve("rank"), [math.nan, 3.0])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"measure": "prob"}, "probe"),
        ({"measure": "accuracy"}, "no curve of 'accuracy'"),
        ({"measure": "probe", "data": "mnist"}, "digits, usps"),
        ({"measure": "probe", "split": "val"}, "train, test"),
        ({"measure": "probe", "step": 3}, "step 3"),
    ],
)
def test_a_curve_that_is_not_there_says_what_is(asked, says):
    with pytest.raises(ReadingsError, match=says):
        some().curve(**asked)


def test_a_place_read_twice_is_no_curve():
    readings = some()
    readings.add("probe", 1.0, place=Place(0, 3, "early"), data="digits", split="test")
    with pytest.raises(ReadingsError, match="read twice"):
        readings.curve("probe")


def test_merging_makes_a_new_one_and_leaves_both_alone():
    one, other = some(), Readings(conventions={"seed": 0})
    other.add("rank", 2.0)
    whole = one.merge(other)
    assert (len(whole), len(one), len(other)) == (len(some()) + 1, len(some()), 1)
    assert whole.conventions == {"pool": "mean", "samples": 450, "seed": 0}


@pytest.mark.parametrize(
    "other",
    [Readings(arrays={"cka": np.zeros((3, 3))}), Readings(conventions={"pool": "flatten"})],
    ids=["array", "convention"],
)
def test_contradicting_readings_do_not_merge_and_nothing_is_taken_over(other):
    other.add("rank", 1.0)
    readings = some()
    with pytest.raises(ReadingsError, match="different"):
        readings.extend(other)
    assert same(readings, some())


def test_saving_again_replaces_and_leaves_three_files(tmp_path):
    some(0.1).save(tmp_path)
    some(0.7).save(tmp_path)
    assert same(Readings.load(tmp_path), some(0.7))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arrays.npz", "readings.csv", "scan.json"]


def test_saving_leaves_the_other_files_of_the_folder_alone(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    some().save(tmp_path)
    assert (tmp_path / "run.json").read_text() == "{}"


def test_the_same_readings_make_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        some().save(tmp_path / name)
    for file in ("readings.csv", "arrays.npz", "scan.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


class Crash(BaseException):
    """The machine stops here."""


def count_replacements(folder, monkeypatch, stop_at=None):
    """Save over older readings and stop before the given rename; how many renames there were."""
    some(0.1).save(folder)
    real, calls = Path.replace, []

    def replace(self, target):
        if len(calls) == stop_at:
            raise Crash
        calls.append(target)
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with contextlib.suppress(Crash):
            some(0.7).save(folder)
    return len(calls)


def test_saving_renames_five_times(tmp_path, monkeypatch):
    assert count_replacements(tmp_path, monkeypatch) == 5


@pytest.mark.parametrize("moment", range(5))
def test_a_crash_at_any_rename_leaves_the_old_or_the_new(tmp_path, monkeypatch, moment):
    assert count_replacements(tmp_path, monkeypatch, stop_at=moment) == moment
    loaded = Readings.load(tmp_path)
    assert same(loaded, some(0.1)) or same(loaded, some(0.7))
    assert same(loaded, some(0.7)) == (moment >= 3)


@pytest.mark.parametrize("moment", range(5))
def test_saving_after_a_crash_cleans_up(tmp_path, monkeypatch, moment):
    count_replacements(tmp_path, monkeypatch, stop_at=moment)
    some(0.3).save(tmp_path)
    assert same(Readings.load(tmp_path), some(0.3))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_reader_beside_a_busy_writer_never_sees_a_mixture(tmp_path):
    def write():
        for count in range(100):
            readings = Readings(arrays={"count": np.array(count)})
            readings.add("rank", count)
            readings.save(tmp_path)

    Readings(arrays={"count": np.array(-1)}).save(tmp_path)
    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while writer.is_alive():
        readings = Readings.load(tmp_path)
        seen.add(int(readings.arrays["count"]))
        assert [row.value for row in readings.rows] in ([], [readings.arrays["count"]])
    writer.join()
    assert len(seen) > 1


@pytest.mark.parametrize("file", ["readings.csv", "arrays.npz", "scan.json"])
def test_a_file_cut_short_is_named(tmp_path, file):
    some().save(tmp_path)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ReadingsError, match=rf"{file}.*cut short"):
        Readings.load(tmp_path)


@pytest.mark.parametrize("file", ["readings.csv", "arrays.npz", "scan.json"])
def test_a_file_that_is_gone_is_named(tmp_path, file):
    some().save(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(ReadingsError, match=file):
        Readings.load(tmp_path)


def test_a_changed_number_is_noticed(tmp_path):
    some().save(tmp_path)
    path = tmp_path / "readings.csv"
    path.write_text(path.read_text().replace("0.9", "0.8"))
    with pytest.raises(ReadingsError, match="changed after"):
        Readings.load(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(ReadingsError, match="not a folder of readings"):
        Readings.load(tmp_path)
    with pytest.raises(ReadingsError, match="not a folder of readings"):
        Readings.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 3}, "format 3"),
        ({"kind": "something"}, "not written by winze"),
        ({"sha256": {}}, "lacks the hashes"),
        ({"conventions": None}, "lacks the hashes or the conventions"),
    ],
)
def test_another_format_is_refused(tmp_path, change, says):
    some().save(tmp_path)
    path = tmp_path / "scan.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ReadingsError, match=says):
        Readings.load(tmp_path)


# Folders from elsewhere


def forged(folder: Path, **changes: bytes | dict) -> None:
    """Readings of which some files are others, with hashes and a seal that fit."""
    some().save(folder)
    manifest = json.loads((folder / "scan.json").read_text())
    manifest["conventions"] |= changes.pop("conventions", {})
    for name, body in changes.items():
        file = {"rows": "readings.csv", "arrays": "arrays.npz"}[name]
        (folder / file).write_bytes(body)
        manifest["sha256"][file] = hashlib.sha256(body).hexdigest()
    del manifest["seal"]
    said = json.dumps(manifest, sort_keys=True).encode()
    (folder / "scan.json").write_text(json.dumps(manifest | {"seal": hashlib.sha256(said).hexdigest()}))


def archive(entries: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as file:
        for name, body in entries.items():
            file.writestr(name, body)
    return buffer.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def pickled() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def overlapping() -> bytes:
    """Two entries of the directory that point at the same megabyte."""
    body = archive({"a.npy": bytes(1 << 20), "b.npy": b""})
    start = body.index(b"PK\x01\x02")
    second = body.index(b"PK\x01\x02", start + 4)
    return body[:second] + body[start:second] + body[second + second - start :]


HEADER = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n"
HOSTILE_ARRAYS = {
    "no archive": b"hello",
    "bomb": archive({"a.npy": bytes(1 << 24)}, zipfile.ZIP_DEFLATED),
    "shared bytes": overlapping(),
    "pickle": archive({"a.npy": pickled()}),
    "huge shape": archive({"a.npy": npy(HEADER % ("<f8", (10**12,)))}),
    "negative shape": archive({"a.npy": npy(HEADER % ("<f8", (-1,)), bytes(8))}),
    "no shape": archive({"a.npy": npy(HEADER % ("<f8", "'x'"))}),
    "no dtype": archive({"a.npy": npy(HEADER % ("<q99", (1,)))}),
    "record": archive({"a.npy": npy("{'descr': [('a','<f8')],'fortran_order':False,'shape':(1,),}\n", bytes(8))}),
    "deep header": archive({"a.npy": npy("(" * 5000)}),
    "no header": archive({"a.npy": b"\x93NUMPY"}),
    "text": archive({"a.txt": b"hello"}),
}


@pytest.mark.parametrize("kind", HOSTILE_ARRAYS)
def test_hostile_arrays_are_refused_by_the_name_of_their_file(tmp_path, kind):
    forged(tmp_path, arrays=HOSTILE_ARRAYS[kind])
    with pytest.raises(ReadingsError, match=r"arrays\.npz (has|holds)"):
        Readings.load(tmp_path)


START = ",".join(COLUMNS) + "\n"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"a,b\n1,2\n",
        f"{START}1,2\n".encode(),
        f"{START}{',' * 40}\n".encode(),
        f"{START}x,d,s,p,0,1,probe,0.5,,,1,\n".encode(),
        f"{START},d,s,p,0,1,probe,half,,,1,\n".encode(),
        f"{START},d,s,p,{'9' * 40},1,probe,0.5,,,1,\n".encode(),
        f"{START},d,s,p,{'9' * 9000},1,probe,0.5,,,1,\n".encode(),
        f"{START},d,s,p,-1,1,probe,0.5,,,1,\n".encode(),
        f"{START},d,s,p,2000000000,1,probe,0.5,,,1,\n".encode(),
        f"{START},d,s,{'p' * 200_000},0,1,probe,0.5,,,1,\n".encode(),
        f'{START},d,s,"p'.encode(),
        START.encode() + b"\xff\xfe",
        f"{START}\0".encode(),
    ],
    ids=range(14),
)
def test_a_hostile_table_is_refused_by_the_name_of_its_file(tmp_path, body):
    forged(tmp_path, rows=body)
    with pytest.raises(ReadingsError, match=r"readings\.csv"):
        Readings.load(tmp_path)


@pytest.mark.parametrize(
    "conventions",
    [
        {"places": "layer1"},
        {"places": []},
        {"places": ["a", "a"]},
        {"places": ["a"], "layouts": []},
        {"layouts": [[1]], "places": ["a"]},
        {"data": 3},
        {"rank": {"max_features": "many"}},
        {"example": [1, -1]},
        {"example": [1 << 20, 1 << 20]},
        {"notes": [{}]},
        {"fingerprint": {"weights": 3}},
        {"class_count": True},
    ],
    ids=str,
)
def test_a_convention_of_another_type_is_named(tmp_path, conventions):
    forged(tmp_path, conventions=conventions)
    with pytest.raises(ReadingsError, match=rf"scan\.json: .*({'|'.join(conventions)})"):
        Readings.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"kind": "winze readings"' + ', "a": ' + "[" * 100_000], ids=["list", "deep"]
)
def test_json_that_is_too_deep_is_no_traceback(tmp_path, text):
    (tmp_path / "scan.json").write_text(text)
    with pytest.raises(ReadingsError, match=r"scan\.json was cut short or is not JSON"):
        Readings.load(tmp_path)


def test_every_changed_bit_of_the_manifest_is_noticed(tmp_path):
    some().save(tmp_path)
    path = tmp_path / "scan.json"
    body = path.read_bytes()
    for position in range(0, len(body), 7):
        for bit in (0, 4):
            path.write_bytes(body[:position] + bytes([body[position] ^ 1 << bit]) + body[position + 1 :])
            if body[position : position + 1].isspace():
                continue  # how JSON is laid out says nothing
            with pytest.raises(ReadingsError, match=r"scan\.json|readings"):
                Readings.load(tmp_path)


def test_readings_from_before_seals_are_read_with_a_note(tmp_path):
    some().save(tmp_path)
    path = tmp_path / "scan.json"
    manifest = json.loads(path.read_text())
    del manifest["seal"]
    path.write_text(json.dumps(manifest | {"version": 1}))
    assert Readings.load(tmp_path).conventions["notes"] == ["an older winze stored this: scan.json has no seal"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(ReadingsError, match="does not match its seal"):
        Readings.load(tmp_path)


@pytest.mark.parametrize("file", ["readings.csv", "arrays.npz", "scan.json"])
def test_a_file_larger_than_readings_are_is_not_read(tmp_path, file, monkeypatch):
    some().save(tmp_path)
    with (tmp_path / file).open("r+b") as opened:
        opened.truncate(1 << 36)  # of which the disk holds next to nothing
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: real(path) if path.name != file else pytest.fail("was read"))
    with pytest.raises(StoreError, match=rf"{file} has .* GB, more than such files hold"):
        Readings.load(tmp_path)


def test_a_pipe_in_the_place_of_a_file_is_no_file(tmp_path):
    some().save(tmp_path)
    (tmp_path / "readings.csv").unlink()
    os.mkfifo(tmp_path / "readings.csv")
    with pytest.raises(StoreError, match=r"readings\.csv is not a file"):
        Readings.load(tmp_path)


def test_two_writers_at_once_leave_the_readings_of_one(tmp_path):
    def write(value: float) -> None:
        for _ in range(12):
            some(value).save(tmp_path, {"weights": str(value).encode()})

    writers = [threading.Thread(target=write, args=(value,)) for value in (0.1, 0.7)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    loaded = Readings.load(tmp_path)
    value = float((tmp_path / "weights").read_text())
    assert same(loaded, some(value))
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    "bad",
    [
        Readings(arrays={"x": np.array([object()])}),
        Readings(conventions={"net": object()}),
        Readings(conventions={"tau": math.nan}),
    ],
    ids=["object array", "object", "nan"],
)
def test_what_cannot_be_stored_leaves_the_old_readings(tmp_path, bad):
    some().save(tmp_path)
    with pytest.raises(ReadingsError):
        bad.save(tmp_path)
    assert same(Readings.load(tmp_path), some())


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(ReadingsError, match="is a file"):
        some().save(tmp_path / "out")


def test_readings_need_neither_torch_nor_pandas():
    code = (
        "import sys, types\n"
        "sys.modules['winze'] = types.ModuleType('winze')\n"  # without what the door imports
        f"sys.modules['winze'].__path__ = [{str(Path(module.__file__).parents[1])!r}]\n"
        "import winze.readings\n"
        "sys.exit('torch' in sys.modules or 'pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_header_of_many_axes_is_refused_in_brief(tmp_path):
    header = str({"descr": "<f8", "fortran_order": False, "shape": (1,) * 3000}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    forged(tmp_path, arrays=archive({"cka.npy": body}))
    with pytest.raises(ReadingsError, match="holds more than plain arrays") as found:
        Readings.load(tmp_path)
    assert len(str(found.value)) < 300 + len(str(tmp_path))
