"""The consent ledger: recorded once, remembered by content, and nothing lost or guessed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, timedelta
from threading import Barrier

import pytest

from mien.errors import ConsentMissing, LedgerUnusable
from mien.safety import Ledger

MINE = "This is my own face."


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger" / "consent.sqlite3")


def test_nothing_is_known_at_first_and_asking_makes_no_file(ledger):
    assert ledger.find(["a"]) is None
    assert not ledger.path.parent.exists()


def test_a_record_is_found_by_the_content_of_the_picture(ledger):
    record = ledger.record(MINE, ["a"], picture="me.jpg")
    assert record.statement == MINE
    assert record.id
    assert record.granted.utcoffset() == timedelta(0)
    assert record.granted.tzinfo is UTC
    assert ledger.find(["a"]) == record
    assert ledger.find(["b"]) is None


def test_a_record_outlives_the_object(ledger):
    record = ledger.record(MINE, ["a"], picture="me.jpg")
    assert Ledger(ledger.path).find(["a"]) == record


def test_the_same_statement_again_is_the_same_record(ledger):
    first = ledger.record(MINE, ["a"], picture="me.jpg")
    other = ledger.record("My sister agrees.", ["a"], picture="me.jpg")
    assert ledger.record(MINE, ["a"], picture="renamed.jpg") == first
    assert ledger.record(f"  {MINE}\n", ["a", "a"], picture="me.jpg") == first
    assert other.id != first.id


def test_the_same_statement_for_another_picture_is_another_record(ledger):
    first = ledger.record(MINE, ["a"], picture="a.jpg")
    second = ledger.record(MINE, ["b"], picture="b.jpg")
    assert first.id != second.id
    assert ledger.find(["a"]) == first
    assert ledger.find(["b"]) == second


def test_every_one_of_several_pictures_must_be_covered_by_one_record(ledger):
    record = ledger.record(MINE, ["a", "b"], picture="a.jpg, b.jpg")
    ledger.record(MINE, ["c"], picture="c.jpg")
    assert ledger.find(["b", "a"]) == record
    assert ledger.find(["b", "b"]) == record
    assert ledger.find(["a"]) == record
    assert ledger.find(["a", "c"]) is None
    assert ledger.find(["a", "b", "d"]) is None


def test_no_picture_is_covered_by_nothing(ledger):
    ledger.record(MINE, ["a"], picture="me.jpg")
    assert ledger.find([]) is None


def test_the_newest_record_counts(ledger):
    for number in range(3):
        newest = ledger.record(f"Statement {number}.", ["a"], picture="me.jpg")
    assert ledger.find(["a"]) == newest


@pytest.mark.parametrize("statement", ["", " ", "\n\t "])
def test_an_empty_statement_is_none(ledger, statement):
    with pytest.raises(ConsentMissing, match=r"me\.jpg.*--consent.*consent=") as caught:
        ledger.record(statement, ["a"], picture="me.jpg")
    assert caught.value.picture == "me.jpg"
    assert not ledger.path.exists()


def test_a_statement_may_be_in_any_language(ledger):
    statement = "Я согласна; 同意します; c'est \"moi\"; 🙂 %s'); DROP TABLE consent; --"
    ledger.record(statement, ["a"], picture="me.jpg")
    assert ledger.find(["a"]).statement == statement


# Where it lies


def test_the_folder_of_the_environment_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "mine"))
    ledger = Ledger()
    assert ledger.path == tmp_path / "mine" / "consent.sqlite3"
    record = ledger.record(MINE, ["a"], picture="me.jpg")
    assert ledger.path.is_file()
    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "other"))
    assert Ledger().find(["a"]) is None
    assert ledger.find(["a"]) == record


@pytest.mark.parametrize("unset", [True, False], ids=["unset", "empty"])
def test_without_it_the_users_data_folder_is_used(tmp_path, monkeypatch, unset):
    monkeypatch.setattr("mien.safety.keys.user_data_path", lambda name, **rest: tmp_path / name)
    if unset:
        monkeypatch.delenv("MIEN_HOME")
    else:
        monkeypatch.setenv("MIEN_HOME", "")
    assert Ledger().path == tmp_path / "mien" / "consent.sqlite3"


# When it cannot be used


def assert_unusable(path, cause, *, read=True):
    ledger = Ledger(path)
    uses = [lambda: ledger.record(MINE, ["a"], picture="me.jpg")]
    uses += [lambda: ledger.find(["a"])] * read
    for use in uses:
        with pytest.raises(LedgerUnusable, match=cause) as caught:
            use()
        assert caught.value.path == path
        assert str(path) in str(caught.value)
        assert "MIEN_HOME" in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    assert_unusable(tmp_path / "file" / "mien" / "consent.sqlite3", "Not a directory", read=False)
    assert Ledger(tmp_path / "file" / "consent.sqlite3").find(["a"]) is None


def test_a_folder_in_its_place_is_named(tmp_path):
    (tmp_path / "consent.sqlite3").mkdir()
    assert_unusable(tmp_path / "consent.sqlite3", "Is a directory")


@pytest.mark.parametrize(
    "content",
    [b"These are words, no records. " * 99, b"SQLite format 3\0" + bytes(999)],
    ids=["words", "a header and nothing"],
)
def test_a_file_that_is_no_ledger_is_named_and_kept(tmp_path, content):
    path = tmp_path / "consent.sqlite3"
    path.write_bytes(content)
    assert_unusable(path, "not a database")
    assert path.read_bytes() == content


def test_a_ledger_cut_short_is_named(ledger):
    for number in range(15):
        ledger.record(f"Statement {number}. " * 99, [f"a{number}"], picture="me.jpg")
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content[: len(content) // 2])
    assert_unusable(ledger.path, "malformed")


def test_a_ledger_of_a_newer_mien_is_left_alone(ledger):
    ledger.record(MINE, ["a"], picture="me.jpg")
    with closing(sqlite3.connect(ledger.path)) as database, database:
        database.execute("PRAGMA user_version = 99")
    content = ledger.path.read_bytes()
    assert_unusable(ledger.path, "schema 99")
    assert ledger.path.read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "consent.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE consent (something TEXT)")
    assert_unusable(path, "already exists")


def test_a_disk_that_fails_while_recording_leaves_no_half_record(ledger):
    ledger.record(MINE, ["a"], picture="me.jpg")
    with closing(sqlite3.connect(ledger.path)) as database, database:
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON picture WHEN NEW.digest = 'c' "
            "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
    with pytest.raises(LedgerUnusable, match="disk full"):
        ledger.record("Two pictures.", ["b", "c"], picture="b.jpg, c.jpg")
    assert ledger.find(["b"]) is None
    with closing(sqlite3.connect(ledger.path)) as database:
        assert database.execute("SELECT count(*) FROM consent").fetchone() == (1,)


# Many at once


def test_four_processes_lose_nothing(ledger):
    code = """
import sys
from pathlib import Path
from mien.safety import Ledger
for i in range(25):
    Ledger(Path(sys.argv[1])).record(f"{sys.argv[2]} says {i}.", [f"{sys.argv[2]}{i}"], picture="p")
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(ledger.path), who], stderr=subprocess.PIPE, text=True
        )
        for who in "abcd"
    ]
    for process in processes:
        assert process.communicate()[1] == ""
        assert process.returncode == 0
    found = [ledger.find([f"{who}{i}"]) for who in "abcd" for i in range(25)]
    wanted = [f"{who} says {i}." for who in "abcd" for i in range(25)]
    assert [record.statement for record in found] == wanted
    assert len({record.id for record in found}) == 100


def test_threads_lose_nothing(ledger):
    with ThreadPoolExecutor(8) as pool:
        records = list(
            pool.map(lambda n: ledger.record(f"Says {n}.", [f"p{n}"], picture="p"), range(32))
        )
    assert [ledger.find([f"p{n}"]) for n in range(32)] == records
    assert len({record.id for record in records}) == 32


def test_threads_that_state_the_same_at_once_get_one_record(ledger):
    start = Barrier(8)

    def record(number):
        start.wait(timeout=60)
        return [ledger.record(MINE, [f"p{round_}"], picture="p").id for round_ in range(6)]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(record, range(8)))
    assert [len(set(found)) for found in zip(*ids, strict=True)] == [1] * 6
