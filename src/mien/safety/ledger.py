"""The ledger: consent records in a small SQLite file, each signed with this user's key.

What is trusted is the signed text of a record, and never a column beside it. A text names its
ledger, its own id and its pictures, so that a row that was copied elsewhere is known for what it
is. A signed state says how many revocations there are and what the latest time was that was seen.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

from mien.errors import (
    ClockSetBack,
    ConsentExpired,
    ConsentForged,
    ConsentMissing,
    ConsentRevoked,
    ConsentUnconfirmed,
    InvalidOption,
    LedgerUnusable,
)
from mien.safety.audit import AuditLog
from mien.safety.consent import UNSTATED, Consent, Declares, commit, new_salt, until
from mien.safety.keys import WAIT, Key, canonical, home
from mien.safety.schema import prepare

NOTICED = timedelta(minutes=1)
"""How far the latest time that is kept may lag behind: writing it takes a millisecond."""

TOLERANCE = timedelta(days=1)
"""How far the clock may be behind the latest time: some machines start with a local time."""

LAST = datetime.max.replace(tzinfo=UTC)

REMEMBERED = 4096
"""Signatures that are not checked a second time."""


@dataclass(frozen=True, slots=True)
class _State:
    """What is true of the ledger as a whole."""

    ledger: str
    latest: datetime
    """The latest time that was seen, in UTC."""

    revocations: tuple[str, ...]
    """Texts of all revocations, the oldest first."""


@dataclass(slots=True)
class _Checked:
    """Texts whose signatures were found good; a cache."""

    known: set[tuple[str, str, str]] = field(default_factory=set)

    def __call__(self, key: Key, purpose: str, text: str, signature: str) -> bool:
        this = (purpose, text, signature)
        if this in self.known:
            return True
        if not key.verify(purpose, text, signature):
            return False
        if len(self.known) >= REMEMBERED:
            self.known.clear()
        self.known.add(this)
        return True


class Ledger:
    """The consent records of this machine's user.

    ``path`` defaults to ``consent.sqlite3`` in ``folder``: the one named by MIEN_HOME, or else the
    user's data folder. The key and the audit log are there, too. Files are made at the first
    record. Safe for many threads and processes.
    """

    def __init__(self, path: Path | None = None, *, folder: Path | None = None) -> None:
        folder = folder or home()
        self.path = path or folder / "consent.sqlite3"
        self.key = Key(folder / "signing.pem")
        self.audit = AuditLog(folder / "audit", self.key)
        self._good = _Checked()

    def record(
        self,
        statement: str,
        digests: Sequence[str],
        *,
        picture: str,
        declares: str = UNSTATED,
        agreed: bool = False,
        adult: bool = False,
        purpose: str = "",
        expires: datetime | date | str | None = None,
        face: bytes | None = None,
        space: str = "",
        anew: bool = False,
    ) -> Consent:
        """Record ``statement`` for pictures by their digests, or return the equal record.

        ``declares`` is one of Declares; 'other' takes ``agreed`` as well. ``expires`` is as for
        consent.until. ``face`` is the rounded embedding of the person, by the network ``space``,
        of which the commitment is kept. ``adult`` states that they are one. ``anew`` allows what
        was revoked or has expired to be stated once more. Raises ConsentMissing for an
        empty statement, naming ``picture``; ConsentUnconfirmed, ConsentRevoked, ConsentExpired,
        ClockSetBack, InvalidOption; LedgerUnusable and AuditUnwritable when it cannot be written.
        """
        statement, purpose = _one_line(statement), _one_line(purpose)
        if not statement:
            raise ConsentMissing(picture)
        if declares not in (*get_args(Declares), UNSTATED):
            raise InvalidOption("declares", declares, get_args(Declares))
        if declares == "other" and not agreed:
            raise ConsentUnconfirmed(picture)
        end = until(expires)
        with self._open(write=True) as database:
            state = self._state(database)
            now = self._now(state)
            if end is not None and end <= now:
                raise InvalidOption("expires", _said(end), f"a time after {_said(now)}")
            terms = (declares, adult, purpose, end)
            same = [
                known
                for known in self._covering(database, state, digests, now)
                if known.statement == statement
            ]
            for known in same:
                also = (known.declares, known.adult, known.purpose, known.expires)
                if also == terms and known.state(now) == "valid":
                    return known
            if same and same[0].state(now) != "valid" and not anew:
                _refuse(same[0], now)
            salt = new_salt() if face is not None else ""
            consent = Consent(
                id=f"c-{secrets.token_hex(8)}",
                statement=statement,
                granted=now,
                declares=declares,
                agreed=agreed,
                adult=adult,
                purpose=purpose,
                expires=end,
                digests=tuple(sorted(set(digests))),
                space=space if face is not None else "",
                salt=salt,
                commitment=commit(salt, face) if face is not None else "",
            )
            self._insert(database, state.ledger, consent)
            self._keep(database, replace(state, latest=now))
            self.audit.append(
                "consent.granted",
                ledger=state.ledger,
                record=consent.id,
                declares=declares,
                expires=None if end is None else _said(end),
                pictures=len(consent.digests),
            )
        return consent

    def find(self, digests: Sequence[str], *, record: str | None = None) -> Consent | None:
        """Return the newest valid record that covers all of these pictures, or None.

        With ``record`` it must be the one of this id. Raises ConsentRevoked or ConsentExpired if
        there are records and none is valid; ConsentForged, ClockSetBack, LedgerUnusable.
        """
        if not self._there():
            return None
        with self._open() as database:
            state = self._state(database)
            now = self._now(state)
            covering = self._covering(database, state, digests, now)
        self._notice(state, now)
        named = [one for one in covering if record in (None, one.id)]
        for one in named:
            if one.state(now) == "valid":
                return one
        if named:
            _refuse(named[0], now)
        return None

    def adult(self, digests: Sequence[str]) -> bool:
        """Return whether a valid record that covers all of these pictures says: an adult's.

        Raises ConsentForged, ClockSetBack, LedgerUnusable.
        """
        if not self._there():
            return False
        with self._open() as database:
            state = self._state(database)
            now = self._now(state)
            covering = self._covering(database, state, digests, now)
        return any(one.adult and one.state(now) == "valid" for one in covering)

    def check(self, records: Sequence[str]) -> None:
        """Make sure that all of these records, by id, are there and valid: half a millisecond.

        Raises ConsentMissing, ConsentRevoked, ConsentExpired, ConsentForged, ClockSetBack,
        LedgerUnusable.
        """
        if not self._there():
            raise ConsentMissing(f"record {records[0]}, as there is no ledger at {self.path}")
        with self._open() as database:
            state = self._state(database)
            now = self._now(state)
            found = [self._get(database, state, record, now) for record in records]
        self._notice(state, now)
        for one in found:
            if one.state(now) != "valid":
                _refuse(one, now)

    def get(self, record: str) -> Consent:
        """Return the record of this id. Raises InvalidOption if there is none, and as ``check``."""
        with self._existing(record) as (database, state):
            return self._get(database, state, record, self._now(state))

    def all(self) -> list[Consent]:
        """Return all records, the oldest first. Raises ConsentForged, ClockSetBack as ``check``."""
        if not self._there():
            return []
        with self._open() as database:
            state = self._state(database)
            now = self._now(state)
            rows = database.execute("SELECT id FROM consent ORDER BY rowid").fetchall()
            return [self._get(database, state, row[0], now) for row in rows]

    def ids(self, digests: Sequence[str] | None = None) -> list[str]:
        """Return the ids of all records, or of those not revoked for any of these pictures.

        Neither signatures nor the clock are looked at: it is for what is to be revoked.
        """
        if not self._there():
            return []
        with self._open() as database:
            if digests is None:
                rows = database.execute("SELECT id FROM consent ORDER BY rowid")
            else:
                rows = database.execute(
                    "SELECT id FROM consent WHERE id IN (SELECT consent FROM picture WHERE digest "
                    f"IN ({', '.join('?' * len(digests))})) AND id NOT IN "
                    "(SELECT consent FROM revocation) ORDER BY rowid",
                    list(digests),
                )
            return [row[0] for row in rows.fetchall()]

    def now(self) -> datetime:
        """Return the time, in UTC, by which records expire: the clock's, or the latest seen."""
        if not self._there():
            return _clock()
        with self._open() as database:
            return self._now(self._state(database))

    def revoke(self, record: str, *, reason: str = "") -> Consent:
        """Withdraw a record for good, and return it; one that was withdrawn stays as it is.

        A clock that was set back does not hinder it. Raises InvalidOption if there is no such
        record; ConsentForged, LedgerUnusable, AuditUnwritable.
        """
        with self._existing(record, write=True) as (database, state):
            now = max(_clock(), state.latest)
            consent = self._get(database, state, record, LAST)
            if consent.revoked is not None:
                return consent
            consent = replace(consent, revoked=now, reason=_one_line(reason))
            body = canonical(
                {
                    "ledger": state.ledger,
                    "key": self.key.name,
                    "consent": record,
                    "revoked": _said(now),
                    "reason": consent.reason,
                }
            )
            database.execute(
                "INSERT INTO revocation VALUES (?, ?, ?)",
                (record, body, self.key.sign("revocation", body)),
            )
            self._keep(database, replace(state, latest=now, revocations=(*state.revocations, body)))
            self.audit.append("consent.revoked", ledger=state.ledger, record=record)
        return consent

    def export(self, records: Sequence[str] = ()) -> dict[str, Any]:
        """Return records, or all, as they were signed, with the public key, ready for JSON."""
        for record in records:
            self.get(record)
        rows: list[dict[str, Any]] = []
        ledger = None
        if self._there():
            with self._open() as database:
                ledger = self._state(database).ledger
                for name, body, signature, revoked, by in database.execute(
                    "SELECT consent.id, consent.body, consent.signature, revocation.body, "
                    "revocation.signature FROM consent LEFT JOIN revocation "
                    "ON revocation.consent = consent.id ORDER BY consent.rowid"
                ):
                    if not records or name in records:
                        row = {"consent": {"body": body, "signature": signature}}
                        if revoked is not None:
                            row["revocation"] = {"body": revoked, "signature": by}
                        rows.append(row)
        return {
            "format": "mien consent 1",
            "ledger": ledger,
            "key": self.key.public if ledger else None,
            "records": rows,
        }

    @property
    def id(self) -> str | None:
        """The ledger's own random name, by which the audit log calls it; None if it is not made."""
        if not self._there():
            return None
        with self._open() as database:
            return self._state(database).ledger

    # What is in the file

    def _get(
        self, database: sqlite3.Connection, state: _State, record: str, now: datetime
    ) -> Consent:
        row = database.execute(
            "SELECT body, signature FROM consent WHERE id = ?", (record,)
        ).fetchone()
        if row is None:
            raise ConsentMissing(f"record {record}, which is not in the ledger at {self.path}")
        pictures = database.execute(
            "SELECT digest FROM picture WHERE consent = ? ORDER BY digest", (record,)
        )
        body = self._signed("consent", record, *row)
        revocation = next((r for r in map(json.loads, state.revocations) if r["consent"] == record),
                          None)  # fmt: skip
        try:
            consent = Consent(
                id=body["id"],
                statement=body["statement"],
                granted=datetime.fromisoformat(body["granted"]),
                declares=body["declares"],
                agreed=body["agreed"],
                adult=body.get("adult", False),
                purpose=body["purpose"],
                expires=body["expires"] and datetime.fromisoformat(body["expires"]),
                digests=tuple(body["digests"]),
                space=body["space"],
                salt=body["salt"],
                commitment=body["commitment"],
                revoked=revocation and datetime.fromisoformat(revocation["revoked"]),
                reason=revocation["reason"] if revocation else "",
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConsentForged(self.path, record, f"is not well formed ({error})") from None
        if body["ledger"] != state.ledger:
            raise ConsentForged(self.path, record, "was copied from another ledger")
        if consent.id != record:
            raise ConsentForged(self.path, record, f"is a copy of {consent.id}")
        if consent.digests != tuple(row[0] for row in pictures):
            raise ConsentForged(self.path, record, "was given other pictures than it was made for")
        if consent.granted > now:
            raise ClockSetBack(
                now=_said(now), seen=_said(consent.granted), what=f"the record {record}"
            )
        return consent

    def _covering(
        self,
        database: sqlite3.Connection,
        state: _State,
        digests: Sequence[str],
        now: datetime,
    ) -> list[Consent]:
        """Return the records that cover all of these pictures, the newest first."""
        wanted = sorted(set(digests))
        marks = ", ".join("?" * len(wanted))
        rows = database.execute(
            f"SELECT consent FROM picture WHERE digest IN ({marks}) GROUP BY consent "
            "HAVING count(*) = ?",
            (*wanted, len(wanted)),
        ).fetchall()
        order = database.execute(
            f"SELECT id FROM consent WHERE id IN ({', '.join('?' * len(rows))}) "
            "ORDER BY rowid DESC",
            [row[0] for row in rows],
        )
        found = [self._get(database, state, row[0], now) for row in order.fetchall()]
        return sorted(found, key=lambda one: one.granted, reverse=True)

    def _state(self, database: sqlite3.Connection) -> _State:
        row = database.execute("SELECT body, signature FROM state").fetchone()
        if row is None:
            raise ConsentForged(self.path, "its signed state", "was removed")
        body = self._signed("state", "its signed state", *row)
        texts = []
        for record, text, signature in database.execute(
            "SELECT consent, body, signature FROM revocation ORDER BY rowid"
        ):
            what = f"the revocation of {record}"
            revocation = self._signed("revocation", what, text, signature)
            if (revocation["ledger"], revocation["consent"]) != (body["ledger"], record):
                raise ConsentForged(self.path, what, "was copied from another one")
            texts.append(text)
        if (len(texts), _all_of(texts)) != (body["revoked"], body["revocations"]):
            what = f"one of the revocations, of which there were {body['revoked']},"
            raise ConsentForged(self.path, what, "was removed, added or moved")
        return _State(body["ledger"], datetime.fromisoformat(body["latest"]), tuple(texts))

    def _signed(self, purpose: str, what: str, text: Any, signature: Any) -> dict[str, Any]:
        if not isinstance(text, str) or not isinstance(signature, str):
            raise ConsentForged(self.path, what, "was edited: its signature is gone")
        if not self._good(self.key, purpose, text, signature):
            with suppress(ValueError, TypeError, AttributeError):
                signer = json.loads(text).get("key")
                if signer != self.key.name:
                    reason = f"was signed with another key ({signer}) than {self.key.path}"
                    raise ConsentForged(self.path, what, f"{reason} ({self.key.name})")
            raise ConsentForged(self.path, what, "was edited after it was signed")
        content: dict[str, Any] = json.loads(text)
        return content

    def _insert(self, database: sqlite3.Connection, ledger: str, consent: Consent) -> None:
        body = canonical(
            {
                "ledger": ledger,
                "key": self.key.name,
                "id": consent.id,
                "statement": consent.statement,
                "granted": _said(consent.granted),
                "declares": consent.declares,
                "agreed": consent.agreed,
                "purpose": consent.purpose,
                "expires": consent.expires and _said(consent.expires),
                "digests": consent.digests,
                "space": consent.space,
                "salt": consent.salt,
                "commitment": consent.commitment,
                # older records lack it, and it is false of them
                **({"adult": True} if consent.adult else {}),
            }
        )
        database.execute(
            "INSERT INTO consent VALUES (?, ?, ?)",
            (consent.id, body, self.key.sign("consent", body)),
        )
        database.executemany(
            "INSERT INTO picture VALUES (?, ?)", [(d, consent.id) for d in consent.digests]
        )

    def _keep(self, database: sqlite3.Connection, state: _State) -> None:
        """Write the state anew."""
        body = canonical(
            {
                "ledger": state.ledger,
                "key": self.key.name,
                "latest": _said(state.latest),
                "revoked": len(state.revocations),
                "revocations": _all_of(state.revocations),
            }
        )
        database.execute(
            "INSERT OR REPLACE INTO state VALUES (1, ?, ?)", (body, self.key.sign("state", body))
        )

    # The clock

    def _now(self, state: _State) -> datetime:
        """Return the clock's time, or the latest that was seen if the clock is behind it a bit."""
        now = _clock()
        if now < state.latest - TOLERANCE:
            raise ClockSetBack(
                now=_said(now), seen=_said(state.latest), what="the latest time it was used"
            )
        return max(now, state.latest)

    def _notice(self, state: _State, now: datetime) -> None:
        """Keep ``now`` as the latest time that was seen."""
        if now - state.latest < NOTICED:
            return
        with self._open(write=True) as database:
            state = self._state(database)
            if now > state.latest:
                self._keep(database, replace(state, latest=now))

    # The file

    def _there(self) -> bool:
        return os.path.exists(self.path)  # noqa: PTH110 - this one is False, too, behind a lock

    @contextmanager
    def _existing(
        self, record: str, *, write: bool = False
    ) -> Iterator[tuple[sqlite3.Connection, _State]]:
        """Open the ledger, in which there must be a record of this id."""
        if self._there():
            with self._open(write=write) as database:
                found = database.execute("SELECT 1 FROM consent WHERE id = ?", (record,))
                if found.fetchone():
                    yield database, self._state(database)
                    return
        raise InvalidOption("record", record, "an id that 'mien consent list' shows")

    @contextmanager
    def _open(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the ledger for one transaction, making the file and its tables if need be."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # it names people
            with closing(sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)) as base:
                try:
                    prepare(base, self._migrate)
                    base.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    yield base
                    base.execute("COMMIT")
                finally:
                    if base.in_transaction:
                        base.execute("ROLLBACK")
        except (sqlite3.Error, OSError, ValueError) as error:
            if isinstance(error, InvalidOption):
                raise
            why = getattr(error, "strerror", None) or str(error)
            raise LedgerUnusable(self.path, why) from error

    def _migrate(self, database: sqlite3.Connection, old: Sequence[tuple[str, str, str]]) -> None:
        """Fill the tables of a new ledger with the (id, statement, granted) of an old one."""
        state = _State(secrets.token_hex(16), _clock(), ())
        for record, statement, granted in old:
            rows = database.execute(
                "DELETE FROM picture WHERE consent = ? RETURNING digest", (record,)
            )
            digests = tuple(sorted(row[0] for row in rows.fetchall()))
            when = datetime.fromisoformat(granted).astimezone(UTC)
            consent = Consent(record, statement, when, digests=digests)
            self._insert(database, state.ledger, consent)
            state = replace(state, latest=max(state.latest, when))
        self._keep(database, state)


def _refuse(consent: Consent, now: datetime) -> None:
    if consent.revoked is not None:
        raise ConsentRevoked(consent.id, when=_said(consent.revoked), reason=consent.reason)
    assert consent.expires is not None
    assert now >= consent.expires
    raise ConsentExpired(consent.id, when=_said(consent.expires))


def _clock() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _said(time: datetime) -> str:
    return time.isoformat()


def _one_line(text: str) -> str:
    return " ".join(text.split()).encode(errors="replace").decode()


def _all_of(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
