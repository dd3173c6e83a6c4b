"""Consent: no face is used without a statement that its use was agreed to.

A statement is recorded once for a set of source pictures and remembered by their content. The
record's id travels with the identity into reports and into the output's metadata. The ledger is a
small SQLite file on the user's machine; it holds statements and digests, never pictures.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from platformdirs import user_data_path

from mien.errors import ConsentMissing, LedgerUnusable

SCHEMA = 1
TABLES = """
CREATE TABLE consent (id TEXT PRIMARY KEY, statement TEXT NOT NULL, granted TEXT NOT NULL);
CREATE TABLE picture (
    digest TEXT NOT NULL, consent TEXT NOT NULL REFERENCES consent (id),
    PRIMARY KEY (digest, consent));
"""


@dataclass(frozen=True, slots=True)
class Consent:
    """One recorded statement."""

    id: str
    statement: str
    granted: datetime
    """When it was recorded, in UTC."""


class Ledger:
    """The consent records of this machine's user.

    ``path`` defaults to ``consent.sqlite3`` in the folder named by MIEN_HOME, or else in the
    user's data folder. The file is made at the first record. Safe for many threads and processes.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or home() / "consent.sqlite3"

    def record(self, statement: str, digests: Sequence[str], *, picture: str) -> Consent:
        """Record ``statement`` for pictures by their digests, or return the equal record.

        Raises ConsentMissing for an empty statement, naming ``picture``; LedgerUnusable when it
        cannot be written.
        """
        statement = " ".join(statement.split()).encode(errors="replace").decode()
        if not statement:
            raise ConsentMissing(picture)
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            for known in _covering(database, digests):
                if known.statement == statement:
                    return known
            consent = Consent(
                id=f"c-{secrets.token_hex(8)}",
                statement=statement,
                granted=datetime.now(UTC).replace(microsecond=0),
            )
            database.execute(
                "INSERT INTO consent VALUES (?, ?, ?)",
                (consent.id, consent.statement, consent.granted.isoformat()),
            )
            database.executemany(
                "INSERT INTO picture VALUES (?, ?)", [(d, consent.id) for d in sorted(set(digests))]
            )
        return consent

    def find(self, digests: Sequence[str]) -> Consent | None:
        """Return the newest record that covers all of these pictures, or None."""
        if not os.path.exists(self.path):  # noqa: PTH110 - this one is False, too, behind a lock
            return None
        with self._open() as database:
            return next(iter(_covering(database, digests)), None)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the ledger for one transaction, making the file and its tables if need be."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # it names people
            with closing(sqlite3.connect(self.path, timeout=20)) as database, database:
                if _version(database) == 0:
                    database.execute("BEGIN IMMEDIATE")
                    if _version(database) == 0:  # another process may have been first
                        for command in filter(str.strip, TABLES.split(";")):
                            database.execute(command)
                        database.execute(f"PRAGMA user_version = {SCHEMA}")
                    database.commit()
                if (found := _version(database)) != SCHEMA:
                    raise LedgerUnusable(self.path, f"it has schema {found}, not {SCHEMA}")
                yield database
        except (sqlite3.Error, OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise LedgerUnusable(self.path, why) from error


def home() -> Path:
    """Return the folder of mien's own files: MIEN_HOME, or the user's data folder."""
    named = os.environ.get("MIEN_HOME")
    return Path(named).expanduser() if named else user_data_path("mien", appauthor=False)


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _covering(database: sqlite3.Connection, digests: Sequence[str]) -> list[Consent]:
    wanted = sorted(set(digests))
    marks = ", ".join("?" * len(wanted))
    rows = database.execute(
        "SELECT id, statement, granted FROM consent JOIN picture ON picture.consent = consent.id "
        f"WHERE digest IN ({marks}) GROUP BY id HAVING count(*) = ? "
        "ORDER BY granted DESC, consent.rowid DESC",
        (*wanted, len(wanted)),
    )
    return [
        Consent(i, statement, datetime.fromisoformat(granted)) for i, statement, granted in rows
    ]
