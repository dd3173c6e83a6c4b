"""The audit log: whole after anything that can happen, and told apart from one that is not."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from mien.errors import AuditBroken, AuditUnwritable, ConsentMissing
from mien.safety.audit import AuditLog
from mien.safety.keys import Key, canonical


def open_log(folder, **options):
    return AuditLog(folder / "audit", Key(folder / "signing.pem"), **options)


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    """The folder of a log of 12 lines in several files."""
    folder = tmp_path_factory.mktemp("twelve")
    log = open_log(folder, size=1500)
    for number in range(11):
        log.append("swap.begun", records=[f"c-{number}"])
    return folder


@pytest.fixture
def log(twelve, tmp_path):
    """A log of 12 lines in several files, to be harmed."""
    shutil.copytree(twelve, tmp_path, dirs_exist_ok=True)
    return open_log(tmp_path, size=1500)


def files(log):
    return sorted(log.folder.glob("audit-*.jsonl"))


def lines(log, number=0):
    return files(log)[number].read_bytes().splitlines(keepends=True)


def put(log, rows, number=0):
    files(log)[number].write_bytes(b"".join(rows))


def assert_broken(log, where, cause):
    with pytest.raises(AuditBroken, match=cause) as caught:
        log.verify()
    assert f"{where}:" in str(caught.value)


def test_a_whole_log_is_whole_over_its_files(log):
    checked = log.verify()
    assert (checked.lines, checked.files) == (12, len(files(log)))
    assert checked.files > 2
    rows = [json.loads(row) for number in range(checked.files) for row in lines(log, number)]
    assert [row["n"] for row in rows] == list(range(1, 13))
    assert [row["before"] for row in rows[1:]] == [row["hash"] for row in rows[:-1]]
    assert rows[-1]["hash"] == checked.last


def test_no_log_is_no_broken_one(tmp_path):
    log = open_log(tmp_path)
    assert log.verify().lines == 0
    assert list(tmp_path.glob("*")) in ([], [tmp_path / "audit"])


def test_an_edited_line_is_named(log):
    rows = lines(log, 1)
    rows[1] = rows[1].replace(b"c-", b"d-")
    put(log, rows, 1)
    assert_broken(log, f"{files(log)[1]}, line 2", "edited")


def test_so_is_one_whose_hash_was_computed_anew(log):
    rows = lines(log)
    line = json.loads(rows[1])
    signature = line.pop("signature")
    line.pop("hash")
    line["records"] = ["c-other"]
    line["hash"] = hashlib.sha256(canonical(line).encode()).hexdigest()
    put(log, [rows[0], canonical({**line, "signature": signature}).encode() + b"\n", *rows[2:]])
    assert_broken(log, f"{files(log)[0]}, line 2", "edited, or written with another key")


def test_a_line_that_was_removed_is_named(log):
    rows = lines(log, 1)
    put(log, rows[:1] + rows[2:], 1)
    n = json.loads(rows[1])["n"]
    with pytest.raises(AuditBroken, match=f"lines {n} to {n} of the log were removed"):
        log.verify()


def test_lines_that_were_exchanged_are_named(log):
    rows = lines(log)
    put(log, [rows[0], rows[2], rows[1], *rows[3:]])
    assert_broken(log, f"{files(log)[0]}, line 2", "lines 2 to 2 of the log were removed, or moved")


def test_a_line_that_is_there_twice_is_named(log):
    rows = lines(log)
    put(log, [*rows[:2], rows[1], *rows[2:]])
    assert_broken(log, f"{files(log)[0]}, line 3", "line 2 of the log was moved, or is there twice")


def test_a_line_of_another_log_of_the_same_key_is_named(log, tmp_path):
    other = AuditLog(tmp_path / "other", log.key)
    for _ in range(3):
        other.append("swap.begun", records=["c-other"])
    rows = lines(log)
    put(log, [rows[0], lines(other)[1], *rows[2:]])
    assert_broken(log, f"{files(log)[0]}, line 2", "does not follow the line before")


@pytest.mark.parametrize("cut", ["a line", "a part", "a file"])
def test_a_log_that_was_cut_short_is_noticed_and_refused(log, cut):
    last = len(files(log)) - 1
    rows = lines(log, last)
    if cut == "a file":
        files(log)[last].unlink()
    else:
        put(log, rows[:-1] + ([rows[-1][:50]] if cut == "a part" else []), last)
    with pytest.raises(AuditBroken, match=r"cut off|missing|edited"):
        log.verify()
    with pytest.raises(AuditBroken, match=r"cut off|missing"):
        log.append("swap.begun")


def test_a_file_in_the_middle_that_is_missing_is_named(log):
    path = files(log)[1]
    path.unlink()
    assert_broken(log, path, "missing")


def test_a_head_that_was_edited_or_removed_is_named(log):
    head = log.folder / "head.json"
    content = head.read_text()
    head.write_text(content.replace("12", "11"))
    assert_broken(log, head, "edited, or written with another key")
    head.unlink()
    for use in (log.verify, lambda: log.append("swap.begun")):
        with pytest.raises(AuditBroken, match=r"head\.json: the file is missing"):
            use()


def test_an_older_head_does_not_hide_a_tail_that_was_forged(log):
    rows = lines(log, -1)
    forged = json.loads(rows[-1]) | {"n": 13}
    put(log, [*rows, json.dumps(forged).encode() + b"\n"], -1)
    for use in (log.verify, lambda: log.append("swap.begun")):
        with pytest.raises(AuditBroken, match="edited"):
            use()


def test_another_key_makes_no_line_of_this_log(log, tmp_path):
    other = AuditLog(log.folder, Key(tmp_path / "other.pem"))
    for use in (other.verify, lambda: other.append("swap.begun")):
        with pytest.raises(AuditBroken, match="another key"):
            use()


def test_what_a_crash_leaves_is_taken_up(log):
    head = log.folder / "head.json"
    before = head.read_bytes()
    log.append("one more")
    head.write_bytes(before)  # the machine stopped before the head was written
    with files(log)[-1].open("ab") as file:
        file.write(b'{"event":"and after the half of a')
    assert log.verify().lines == 13
    log.append("last")
    checked = log.verify()
    assert checked.lines == 14
    assert b"and after" not in files(log)[-1].read_bytes()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_is_full_is_an_error_and_the_log_stays_whole(log, monkeypatch, number):
    def full(_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(AuditUnwritable, match=os.strerror(number)):
            log.append("swap.begun")
    assert log.verify().lines == 12
    log.append("swap.begun")
    assert log.verify().lines == 13


def test_a_folder_that_is_locked_is_an_error(tmp_path, lock):
    log = open_log(tmp_path)
    log.append("swap.begun")
    lock(log.folder)
    with pytest.raises(AuditUnwritable, match="Permission denied"):
        log.append("swap.begun")


def test_an_output_without_its_line_is_taken_away(log, tmp_path):
    out, kept = tmp_path / "out.png", tmp_path / "kept.png"
    for path in (out, kept):
        path.write_bytes(b"picture")
    log.done(kept, records=["c-1"])
    line = json.loads(lines(log, -1)[-1])
    assert line["output"] == hashlib.sha256(b"picture").hexdigest()
    assert "kept" not in str(line)
    log.folder.joinpath("head.json").unlink()
    with pytest.raises(AuditBroken):
        log.done(out, records=["c-1"])
    assert (out.exists(), kept.exists()) == (False, True)


def test_refusals_are_written_down(log):
    with pytest.raises(ConsentMissing), log.refusals(["c-1"]):
        raise ConsentMissing("secret-name.jpg")
    line = json.loads(lines(log, -1)[-1])
    assert (line["event"], line["reason"], line["records"]) == (
        "refused",
        "ConsentMissing",
        ["c-1"],
    )
    assert "secret" not in str(line)


def test_a_refusal_is_one_though_the_log_fails(log, caplog):
    (log.folder / "head.json").unlink()
    with pytest.raises(ConsentMissing), log.refusals():
        raise ConsentMissing("me.jpg")
    assert "A refusal is not in the audit log" in caplog.text


def test_three_processes_write_one_chain(tmp_path):
    code = """
import sys
from pathlib import Path
from mien.safety.audit import AuditLog
from mien.safety.keys import Key
folder = Path(sys.argv[1])
log = AuditLog(folder / "audit", Key(folder / "signing.pem"), size=2000)
for n in range(12):
    log.append("swap.begun", records=[f"c-{n}"])
"""
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [process.communicate()[1] for process in running] == [b""] * 3
    assert open_log(tmp_path).verify().lines == 37
