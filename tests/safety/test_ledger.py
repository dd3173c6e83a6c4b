"""Attacks on consent records: edited, copied, forged, rolled back; and two processes at once."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from mien.errors import (
    AuditUnwritable,
    ClockSetBack,
    ConsentExpired,
    ConsentForged,
    ConsentMissing,
    ConsentRevoked,
    ConsentUnconfirmed,
    InvalidOption,
    LedgerUnusable,
    Refused,
)
from mien.safety import Ledger
from mien.safety.consent import until

MINE = "This is my own face."
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
OLD = """
CREATE TABLE consent (id TEXT PRIMARY KEY, statement TEXT NOT NULL, granted TEXT NOT NULL);
CREATE TABLE picture (
    digest TEXT NOT NULL, consent TEXT NOT NULL REFERENCES consent (id),
    PRIMARY KEY (digest, consent));
INSERT INTO consent VALUES ('c-1', 'I am Ann.', '2026-01-02T03:04:05+00:00');
INSERT INTO consent VALUES ('c-2', 'I am Bob.', '2026-01-03T03:04:05+00:00');
INSERT INTO picture VALUES ('a', 'c-1');
INSERT INTO picture VALUES ('a2', 'c-1');
INSERT INTO picture VALUES ('b', 'c-2');
PRAGMA user_version = 1;
"""


@pytest.fixture
def ledger(tmp_path):
    return Ledger(folder=tmp_path / "home")


@pytest.fixture
def clock(monkeypatch):
    """Return what sets the clock."""

    def at(time):
        monkeypatch.setattr("mien.safety.ledger._clock", lambda: time)

    at(NOW)
    return at


def say(ledger, statement=MINE, digests=("a",), **terms):
    return ledger.record(statement, digests, picture="me.jpg", **terms)


def edit(ledger, *commands):
    with closing(sqlite3.connect(ledger.path)) as database, database:
        for command in commands:
            database.execute(*command) if isinstance(command, tuple) else database.execute(command)


def assert_forged(ledger, record, cause, digests=("a",)):
    """Make sure that neither a new object nor one that knew the record takes it."""
    for one in (ledger, Ledger(ledger.path, folder=ledger.key.path.parent)):
        for use in (lambda one=one: one.find(digests), lambda one=one: one.check([record.id])):
            with pytest.raises(ConsentForged, match=cause) as caught:
                use()
            assert str(ledger.path) in str(caught.value)


# Terms


def test_all_terms_are_kept(ledger, clock):
    face = bytes(range(64))
    record = say(
        ledger,
        declares="other",
        agreed=True,
        purpose=" a\nfilm ",
        expires="2027-01-31",
        face=face,
        space="sface",
    )
    assert (record.declares, record.agreed, record.purpose) == ("other", True, "a film")
    assert record.expires == datetime(2027, 2, 1, tzinfo=UTC)
    assert ledger.get(record.id) == record == ledger.find(["a"])
    assert record.shows(face)
    assert not record.shows(face[::-1])
    assert face not in ledger.path.read_bytes()
    again = say(ledger, "Anew.", face=face)
    assert again.commitment != record.commitment


def test_another_person_must_have_agreed(ledger):
    with pytest.raises(ConsentUnconfirmed, match="--they-agreed"):
        say(ledger, declares="other")
    assert not ledger.path.exists()


@pytest.mark.parametrize("declares", ["", "me", "Self"])
def test_only_known_declarations_are_taken(ledger, declares):
    with pytest.raises(InvalidOption, match="self, other, licensed, no-real-person"):
        say(ledger, declares=declares)


def test_an_end_is_a_day_or_a_time_with_its_zone():
    end = datetime(2027, 2, 1, tzinfo=UTC)
    assert until("2027-01-31") == until(date(2027, 1, 31)) == end
    assert until("2027-02-01T02:00:00+02:00") == until(end) == end
    assert until(None) is None
    for wrong in ("", "soon", "2027-13-01", "2027-01-31T10:00", datetime(2027, 1, 1), date.max, 5):
        with pytest.raises(InvalidOption, match="last day"):
            until(wrong)


# Ends


def test_a_record_holds_through_its_last_day(ledger, clock):
    record = say(ledger, expires="2026-06-03")
    clock(datetime(2026, 6, 3, 23, 59, 59, tzinfo=UTC))
    assert ledger.find(["a"]) == record
    clock(datetime(2026, 6, 4, tzinfo=UTC))
    for use in (lambda: ledger.find(["a"]), lambda: ledger.check([record.id])):
        with pytest.raises(ConsentExpired, match=rf"{record.id} expired on 2026-06-04"):
            use()


def test_an_end_that_has_passed_is_no_end(ledger, clock):
    with pytest.raises(InvalidOption, match="after 2026-06-01"):
        say(ledger, expires="2026-05-31")


def test_revoking_is_for_good_and_known_to_all(ledger):
    record, other = say(ledger), Ledger(folder=ledger.key.path.parent)
    assert other.find(["a"]) == record
    gone = ledger.revoke(record.id, reason="No  more.")
    assert (gone.reason, gone.state(gone.revoked)) == ("No more.", "revoked")
    assert ledger.revoke(record.id, reason="Later.") == gone == other.get(record.id)
    for use in (lambda: other.find(["a"]), lambda: other.check([record.id])):
        with pytest.raises(ConsentRevoked, match=r"revoked on .*\(No more\.\)"):
            use()


def test_the_same_words_do_not_bring_it_back_but_a_grant_does(ledger):
    ledger.revoke(say(ledger).id)
    with pytest.raises(ConsentRevoked):
        say(ledger)
    anew = say(ledger, anew=True)
    assert ledger.find(["a"]) == anew == say(ledger)


def test_another_valid_record_is_enough(ledger):
    first, second = say(ledger), say(ledger, "Again.")
    ledger.revoke(second.id)
    assert ledger.find(["a"]) == first
    with pytest.raises(ConsentRevoked):
        ledger.find(["a"], record=second.id)


def test_what_is_not_there_is_said(ledger):
    with pytest.raises(ConsentMissing, match="no ledger"):
        ledger.check(["c-0"])
    for use in (ledger.get, ledger.revoke):
        with pytest.raises(InvalidOption, match="mien consent list"):
            use("c-0")
    say(ledger)
    with pytest.raises(ConsentMissing, match="c-0, which is not in the ledger"):
        ledger.check(["c-0"])
    with pytest.raises(InvalidOption):
        ledger.get("c-0")


# Tampering


@pytest.mark.parametrize(
    ("what", "by"),
    [
        (MINE, "Anybody may use it"),
        ('"expires":"2026-06-04T', '"expires":"2096-06-04T'),
        ('"declares":"self"', '"declares":"none"'),
    ],
)
def test_an_edited_row_is_refused(ledger, clock, what, by):
    record = say(ledger, declares="self", expires="2026-06-03")
    ledger.check([record.id])
    edit(ledger, ("UPDATE consent SET body = replace(body, ?, ?)", (what, by)))
    assert_forged(ledger, record, "edited")


def test_a_record_given_other_pictures_is_refused(ledger):
    record = say(ledger)
    edit(ledger, ("INSERT INTO picture VALUES ('b', ?)", (record.id,)))
    assert_forged(ledger, record, "other pictures", ["b"])


def test_a_row_copied_under_another_identity_is_refused(ledger):
    mine, theirs = say(ledger), say(ledger, "Theirs.", ["b"])
    edit(
        ledger,
        (
            "UPDATE consent SET (body, signature) = (SELECT body, signature FROM consent "
            "WHERE id = ?) WHERE id = ?",
            (mine.id, theirs.id),
        ),
    )
    assert_forged(ledger, theirs, f"copy of {mine.id}", ["b"])
    assert ledger.find(["a"]) == mine


def copy_rows(source, target):
    edit(
        target,
        ("ATTACH ? AS other", (str(source.path),)),
        "INSERT INTO consent SELECT * FROM other.consent",
        "INSERT INTO picture SELECT * FROM other.picture",
    )


def test_a_row_copied_from_another_ledger_is_refused(ledger, tmp_path):
    other = Ledger(tmp_path / "other.sqlite3", folder=tmp_path / "home")
    record = say(other)
    say(ledger, "Something.", ["b"])
    copy_rows(other, ledger)
    assert_forged(ledger, record, "another ledger")


def test_a_row_signed_with_another_key_is_refused(ledger, tmp_path):
    other = Ledger(folder=tmp_path / "stranger")
    record = say(other)
    say(ledger, "Something.", ["b"])
    copy_rows(other, ledger)
    assert_forged(ledger, record, "another key")


def test_a_whole_ledger_of_another_key_is_refused(ledger, tmp_path):
    other = Ledger(folder=tmp_path / "stranger")
    record = say(other)
    ledger.path.parent.mkdir()
    shutil.copy(other.path, ledger.path)
    assert_forged(ledger, record, "another key")


@pytest.mark.parametrize(
    "command",
    [
        "DELETE FROM revocation",
        "UPDATE revocation SET consent = 'c-0'",
        "UPDATE revocation SET body = replace(body, 'revoked', 'ignored')",
        "DELETE FROM state",
        "UPDATE state SET body = replace(body, '\"revoked\":1', '\"revoked\":0')",
    ],
)
def test_a_revocation_cannot_be_taken_back_in_the_file(ledger, command):
    record = say(ledger)
    ledger.revoke(record.id)
    edit(ledger, command)
    assert_forged(ledger, record, "removed|edited|copied")


def test_a_revocation_cannot_be_swapped_for_another_one(ledger):
    mine, theirs = say(ledger), say(ledger, "Theirs.", ["b"])
    ledger.revoke(mine.id)
    edit(ledger, ("UPDATE revocation SET consent = ?", (theirs.id,)))
    assert_forged(ledger, mine, "copied")


def test_a_key_that_is_no_key_is_named(ledger):
    say(ledger)
    ledger.key.path.write_text("nonsense")
    with pytest.raises(LedgerUnusable, match=r"signing\.pem is damaged"):
        Ledger(folder=ledger.key.path.parent).find(["a"])


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are those of POSIX")
def test_key_ledger_and_log_are_for_their_owner_alone(ledger):
    say(ledger)
    files = [path for path in ledger.path.parent.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert ledger.key.path in files


# The clock


def test_a_clock_set_back_does_not_bring_consent_back(ledger, clock):
    record = say(ledger, expires="2026-06-03")
    clock(NOW + timedelta(days=3))
    with pytest.raises(ConsentExpired):
        ledger.check([record.id])
    clock(NOW + timedelta(days=2, hours=1))  # within what some machines do when they start
    with pytest.raises(ConsentExpired):
        ledger.check([record.id])
    clock(NOW)
    for use in (lambda: ledger.check([record.id]), lambda: say(ledger, "More."), ledger.all):
        with pytest.raises(ClockSetBack, match=r"2026-06-01.*2026-06-04.*set back"):
            use()
    assert ledger.revoke(record.id).revoked == NOW + timedelta(days=3)


def test_the_time_that_was_seen_cannot_be_edited(ledger, clock):
    record = say(ledger, expires="2026-06-03")
    clock(NOW + timedelta(days=1))
    ledger.check([record.id])
    edit(ledger, "UPDATE state SET body = replace(body, '2026-06-02', '2026-06-01')")
    assert_forged(ledger, record, "edited")


def test_a_record_of_the_future_is_refused(ledger, clock):
    before = ledger.path.with_name("before.sqlite3")
    say(ledger, "Something.", ["b"])
    with closing(sqlite3.connect(ledger.path)) as database:
        state = database.execute("SELECT body, signature FROM state").fetchone()
    clock(NOW + timedelta(days=300))
    record = say(ledger)
    edit(ledger, ("UPDATE state SET body = ?, signature = ?", state))
    clock(NOW)
    with pytest.raises(ClockSetBack, match=f"record {record.id} is of 2027-03-28"):
        ledger.check([record.id])
    assert not before.exists()


# The file


def test_an_old_ledger_is_taken_over_as_it_is(ledger):
    ledger.path.parent.mkdir()
    with closing(sqlite3.connect(ledger.path)) as database:
        database.executescript(OLD)
    ann, bob = ledger.all()
    assert (ann.id, ann.statement, ann.declares, ann.digests) == (
        *("c-1", "I am Ann.", "unstated"),
        ("a", "a2"),
    )
    assert ann.granted == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert ledger.find(["b"]) == bob
    assert say(ledger, "I am Bob.", ["b"]) == bob
    edit(ledger, "UPDATE consent SET body = replace(body, 'Bob', 'Eve')")
    assert_forged(ledger, bob, "edited", ["b"])


def test_one_of_many_processes_takes_an_old_ledger_over(ledger):
    ledger.path.parent.mkdir()
    with closing(sqlite3.connect(ledger.path)) as database:
        database.executescript(OLD)
    code = f"print(Ledger(folder=Path({str(ledger.path.parent)!r})).find(['a']).id)"
    assert [done for _, done in processes([code] * 3)] == ["c-1\n"] * 3


def test_it_is_in_wal_mode_of_schema_2(ledger):
    say(ledger)
    with closing(sqlite3.connect(ledger.path)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("PRAGMA user_version").fetchone() == (2,)


def processes(codes):
    """Run these at once, and return what each wrote to stderr and stdout."""
    head = "from pathlib import Path\nfrom mien.safety import Ledger\nfrom mien.errors import *\n"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", head + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for code in codes
    ]
    told = [process.communicate() for process in running]
    assert [error for _, error in told] == [""] * len(told)
    return [(error, out) for out, error in told]


def test_two_processes_that_grant_and_revoke_at_once_agree(ledger):
    folder = str(ledger.path.parent)
    code = f"""
ledger = Ledger(folder=Path({folder!r}))
for n in range(8):
    record = ledger.record(f"{{WHO}} says {{n}}.", [f"{{WHO}}{{n}}", "both"], picture="p")
    if n % 2:
        ledger.revoke(record.id)
    for one in ledger.all():
        ledger.revoke(one.id) if one.statement.endswith("4.") else None
"""
    processes([f"WHO = {who!r}\n{code}" for who in "ab"])
    records = ledger.all()
    assert len(records) == 16
    gone = {record.statement for record in records if record.revoked}
    assert gone == {f"{who} says {n}." for who in "ab" for n in (1, 3, 4, 5, 7)}
    # the log has each of them once, in one chain
    checked = ledger.audit.verify()
    assert sorted(record for _, record in checked.revoked) == sorted(
        record.id for record in records if record.revoked
    )
    assert checked.lines == 1 + 16 + 10


def test_a_log_that_cannot_be_written_lets_nothing_be_recorded(ledger):
    record = say(ledger)
    shutil.rmtree(ledger.audit.folder)
    ledger.audit.folder.write_text("in the way")
    for use in (lambda: say(ledger, "More."), lambda: ledger.revoke(record.id)):
        with pytest.raises(AuditUnwritable, match=str(ledger.audit.folder)):
            use()
    assert ledger.all() == [record]


def test_an_export_can_be_checked_by_others(ledger):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    first, second = say(ledger), say(ledger, "More.")
    ledger.revoke(second.id)
    told = json.loads(json.dumps(ledger.export()))
    assert [json.loads(row["consent"]["body"])["id"] for row in told["records"]] == [
        *(first.id, second.id)
    ]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(told["key"]))
    for row in told["records"]:
        for purpose, part in row.items():
            message = f"mien {purpose} 1\n{part['body']}".encode()
            key.verify(bytes.fromhex(part["signature"]), message)
    assert len(ledger.export([second.id])["records"]) == 1
    assert Ledger(folder=Path(f"{ledger.path.parent}-none")).export()["records"] == []


def test_all_of_these_are_refusals():
    kinds = (ConsentMissing, ConsentUnconfirmed, ConsentRevoked, ConsentExpired, ConsentForged)
    assert all(issubclass(kind, Refused) for kind in (*kinds, ClockSetBack))
