"""``mien consent`` and ``mien audit``: to grant, look, revoke; and swaps that heed it."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from conftest import CONSENT

from mien.errors import ConsentRevoked
from mien.safety import Declares, Ledger

PAGE = (Path(__file__).parent.parent.parent / "docs" / "consent.md").read_text(encoding="utf-8")


@pytest.fixture
def ledger(loaded, swapper, tmp_path, monkeypatch):
    """A ledger, a key and a log of the test's own."""
    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(swapper, "ledger", Ledger())
    return swapper.ledger


@pytest.fixture
def grant(mien_, ledger, people):
    def run(who="dev", *options, declares="no-real-person"):
        code, printed, errors = mien_(
            *("consent", "grant", people[who], "--statement", CONSENT, "--declares", declares),
            *("--json", *options),
        )
        return code, json.loads(printed), errors

    return run


def test_a_grant_is_listed_shown_used_and_revoked(mien_, grant, people, tmp_path):
    code, row, _ = grant("dev", "--purpose", "a test", "--expires", "2090-01-31")
    assert code == 0
    record = row["record"]
    assert (row["state"], row["purpose"], row["expires"][:10]) == (
        *("valid", "a test"),
        "2090-02-01",
    )
    code, printed, _ = mien_("consent", "list")
    assert (code, len(printed.splitlines())) == (0, 2)
    assert re.search(rf"{record}  valid    no-real-person  \S+  2090-01-31  {CONSENT}", printed)
    assert json.loads(mien_("consent", "list", "--json")[1]) == [row]
    assert json.loads(mien_("consent", "show", record, "--json")[1]) == row
    out = tmp_path / "out.png"
    swap = ("swap", people["dev"], people["ben"], "-o", out, "--json")
    assert json.loads(mien_(*swap)[1])["consents"] == [record]
    out.unlink()
    code, printed, _ = mien_("consent", "revoke", record, "--reason", "No more.", "--json")
    assert code == 0
    assert json.loads(printed)["revoked"][0]["reason"] == "No more."
    for options in ([], ["--consent", CONSENT], ["--consent-record", record]):
        code, printed, errors = mien_(*swap, *options)
        assert (code, out.exists()) == (4, False)
        assert json.loads(printed)["error"]["kind"] == "ConsentRevoked"
        assert "No more." in errors
    events = [json.loads(line) for line in log_of(tmp_path).read_text().splitlines()]
    assert [event["event"] for event in events] == [
        *("log.begun", "consent.granted", "swap.begun", "swap.done", "consent.revoked"),
        *("refused",) * 3,
    ]
    assert events[3]["records"] == events[5]["records"] == [record]
    assert (events[3]["swapped"], len(events[3]["output"])) == (1, 64)
    assert "dev" not in str(events)


def log_of(folder):
    return folder / "home" / "audit" / "audit-00001.jsonl"


def test_show_checks_whose_face_it_is(mien_, grant, people):
    record = grant("dev")[1]["record"]
    for who, code, same in (("dev", 0, "yes"), ("eva", 1, "no")):
        found, printed, _ = mien_("consent", "show", record, "--face", people[who])
        assert found == code
        assert re.search(rf"^same_face +{same}$", printed, re.MULTILINE)
    assert mien_("consent", "show", "c-0")[0] == 2


def test_a_face_cannot_be_checked_that_was_not_embedded(mien_, ledger, people):
    record = ledger.record(CONSENT, ["a"], picture="a").id
    code, _, errors = mien_("consent", "show", record, "--face", people["dev"])
    assert code == 2
    assert "without commitment" in errors


def test_another_person_is_a_step_of_its_own(grant, ledger):
    code, printed, errors = grant(declares="other")
    assert code == printed["error"]["exit"] == 4
    assert "--they-agreed" in errors
    assert not ledger.path.exists()
    code, row, _ = grant("dev", "--they-agreed", declares="other")
    assert (code, row["agreed"], row["declares"]) == (0, True, "other")


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 0), ("y\n", 4), ("\n", 4), ("", 4)])
def test_on_a_terminal_it_is_asked(grant, monkeypatch, answer, code):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: answer)
    found, _, errors = grant(declares="other")
    assert found == code
    assert "did they agree to this use?" in errors


def test_what_is_wrong_with_an_end_is_said_before_networks_are_loaded(mien_, built, people):
    command = ("consent", "grant", people["dev"], "--statement", "Me.", "--declares", "self")
    code, _, errors = mien_(*command, "--expires", "soon")
    assert (code, built) == (2, [])
    assert "2027-01-31" in errors


def test_expired_is_four(mien_, grant, people, tmp_path, monkeypatch):
    assert grant("dev", "--expires", "2090-01-31")[0] == 0
    later = datetime(2090, 2, 1, tzinfo=UTC)
    monkeypatch.setattr("mien.safety.ledger._clock", lambda: later)
    out = tmp_path / "out.png"
    code, printed, _ = mien_("swap", people["dev"], people["ben"], "-o", out, "--json")
    assert (code, json.loads(printed)["error"]["kind"]) == (4, "ConsentExpired")
    assert not out.exists()


def test_all_records_of_a_picture_are_revoked_at_once(mien_, grant, ledger, people):
    first = grant("dev")[1]["record"]
    second = grant("dev", "--purpose", "another")[1]["record"]
    other = grant("eva")[1]["record"]
    code, printed, _ = mien_("consent", "revoke", first, "--json")
    assert (code, json.loads(printed)["still_there"]) == (0, [second])
    assert mien_("consent", "revoke", "--picture", people["dev"])[:2] == (0, f"{second}: revoked\n")
    assert [record.id for record in ledger.all() if not record.revoked] == [other]
    assert mien_("consent", "revoke", "--picture", people["ben"])[0] == 2
    assert mien_("consent", "revoke", other, "c-0")[0] == 2
    assert ledger.get(other).revoked is None


def test_a_clock_that_was_set_back_hinders_no_revoking(mien_, grant, people, monkeypatch):
    record = grant("dev")[1]["record"]
    monkeypatch.setattr("mien.safety.ledger._clock", lambda: datetime(2020, 1, 1, tzinfo=UTC))
    code, _, errors = mien_("consent", "list")
    assert code == 4
    assert "clock was set back" in errors
    assert mien_("consent", "revoke", "--picture", people["dev"])[:2] == (0, f"{record}: revoked\n")


def test_a_swap_goes_by_the_record_that_is_named(mien_, grant, people, tmp_path):
    first = grant("dev")[1]["record"]
    grant("dev", "--purpose", "another")
    other = grant("eva")[1]["record"]
    swap = ("swap", people["dev"], people["ben"], "-o", tmp_path / "out.png", "--json")
    code, printed, _ = mien_(*swap, "--consent-record", first)
    assert (code, json.loads(printed)["consents"]) == (0, [first])
    code, _, errors = mien_(*swap, "--consent-record", other)
    assert code == 4
    assert f"dev.png in the record {other}" in errors
    assert mien_(*swap, "--consent-record", first, "--consent", CONSENT)[0] == 2


def test_an_identity_that_is_kept_is_refused_once_it_is_revoked(swapper, ledger, people):
    identity = swapper.identity(people["dev"], consent=CONSENT)
    swapper.swap(people["ben"], identity)
    ledger.revoke(identity.consent)
    for use in (
        lambda: swapper.swap(people["ben"], identity),
        lambda: swapper.clip(swapper.cast(identity)),
    ):
        with pytest.raises(ConsentRevoked):
            use()


def test_a_clip_ends_when_its_consent_does(
    swapper, ledger, people, clips, tmp_path, monkeypatch, painted
):
    identity = swapper.identity(people["dev"], consent=CONSENT)
    seconds = iter(range(0, 1000, 2))
    monkeypatch.setattr("mien.swapper.monotonic", lambda: next(seconds))
    out = tmp_path / "out.mkv"
    swapper.swap_video(clips["exact"], identity, output=out)
    assert out.exists()
    out.unlink()
    out.with_name("out.mkv.c2pa").unlink()
    with pytest.raises(ConsentRevoked):
        swapper.swap_video(
            clips["exact"],
            identity,
            output=out,
            progress=lambda _: ledger.revoke(identity.consent),
        )
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


# The log


def test_a_log_that_is_whole_is_zero_and_one_that_was_edited_six(mien_, grant, tmp_path):
    assert mien_("audit", "verify")[0] == 0
    grant("dev")
    code, printed, _ = mien_("audit", "verify", "--json")
    assert (code, json.loads(printed)["lines"]) == (0, 2)
    log = log_of(tmp_path)
    log.write_text(log.read_text().replace("no-real-person", "self"))
    code, printed, errors = mien_("audit", "verify", "--json")
    assert code == json.loads(printed)["error"]["exit"] == 6
    assert f"{log}, line 2: it was edited" in errors


def test_no_face_is_used_without_the_log(mien_, grant, people, tmp_path):
    grant("dev")
    out = tmp_path / "out.png"
    log_of(tmp_path).write_text("")
    code, _, errors = mien_("swap", people["dev"], people["ben"], "-o", out)
    assert (code, out.exists()) == (6, False)
    assert "cut off" in errors
    shutil.rmtree(log_of(tmp_path).parent)
    log_of(tmp_path).parent.write_text("in the way")
    code, _, errors = mien_("swap", people["dev"], people["ben"], "-o", out)
    assert (code, out.exists()) == (1, False)
    assert "audit log" in errors


def test_an_older_ledger_in_its_place_is_noticed(mien_, grant, ledger, tmp_path):
    record = grant("dev")[1]["record"]
    shutil.copy(ledger.path, tmp_path / "older")
    assert mien_("consent", "revoke", record)[0] == 0
    assert mien_("audit", "verify")[0] == 0
    shutil.copy(tmp_path / "older", ledger.path)
    code, _, errors = mien_("audit", "verify")
    assert code == 6
    assert f"{record} was revoked, and the ledger" in errors


def test_a_record_that_was_edited_is_four_and_named(mien_, grant, ledger, people, tmp_path):
    record = grant("dev")[1]["record"]
    with closing(sqlite3.connect(ledger.path)) as database, database:
        database.execute("UPDATE consent SET body = replace(body, 'no-real-person', 'self')")
    for command in (
        ("consent", "list"),
        ("consent", "show", record),
        ("swap", people["dev"], people["ben"], "-o", tmp_path / "out.png"),
    ):
        code, _, errors = mien_(*command)
        assert code == 4
        assert f"{record} was edited" in errors


def test_an_export_is_written(mien_, grant, tmp_path):
    grant("dev")
    code, printed, _ = mien_("consent", "export")
    assert mien_("consent", "export", "-o", tmp_path / "records.json")[:2] == (0, "")
    assert code == 0
    assert json.loads((tmp_path / "records.json").read_text()) == json.loads(printed)
    assert mien_("consent", "export", "-o", tmp_path / "no" / "records.json")[0] == 2


# The page


def test_the_page_and_the_help_agree(mien_):
    commands = re.findall(r"^\$ mien ((?:consent|audit) \w+)(.*)$", PAGE, re.MULTILINE)
    assert {command for command, _ in commands} == {
        *(f"consent {name}" for name in ("grant", "list", "show", "revoke", "export")),
        "audit verify",
    }
    for command, rest in commands:
        code, printed, _ = mien_(*command.split(), "--help")
        assert code == 0
        for option in re.findall(r"(?<= )--?[a-z][a-z-]*", rest.split("#")[0]):
            assert option in printed
    values = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert values == [*get_args(Declares), "unstated"]
