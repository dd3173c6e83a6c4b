"""The ledger's tables, and the way from older ones to them.

Schema 1 held statements as they are, without signatures. Schema 2 holds signed texts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

SCHEMA = 2
"""What ``PRAGMA user_version`` says of a ledger that this mien writes."""

TABLES = """
CREATE TABLE consent (id TEXT PRIMARY KEY, body TEXT NOT NULL, signature TEXT NOT NULL);
CREATE TABLE revocation (
    consent TEXT PRIMARY KEY REFERENCES consent (id), body TEXT NOT NULL, signature TEXT NOT NULL);
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1), body TEXT NOT NULL, signature TEXT NOT NULL);
CREATE TABLE picture (
    digest TEXT NOT NULL, consent TEXT NOT NULL REFERENCES consent (id),
    PRIMARY KEY (digest, consent));
"""

Fill: TypeAlias = Callable[[sqlite3.Connection, Sequence[tuple[str, str, str]]], None]
"""Given the (id, statement, granted) of old records, whose pictures are in place, it signs them."""


def prepare(database: sqlite3.Connection, fill: Fill) -> None:
    """Make the tables, or bring older ones up to date. Raises ValueError for those of a newer mien.

    All of it happens or nothing, and one process does it.
    """
    if _version(database) < SCHEMA:
        database.execute("BEGIN IMMEDIATE")
        if (version := _version(database)) < SCHEMA:  # another process may have been first
            old = _take_old(database) if version == 1 else []
            pictures = database.execute("SELECT * FROM old_picture").fetchall() if version else []
            for command in filter(str.strip, TABLES.split(";")):
                database.execute(command)
            database.executemany("INSERT INTO picture VALUES (?, ?)", pictures)
            fill(database, old)
            if version:
                database.execute("DROP TABLE old_picture")
                database.execute("DROP TABLE old_consent")
            database.execute(f"PRAGMA user_version = {SCHEMA}")
        database.execute("COMMIT")
    if (found := _version(database)) != SCHEMA:
        raise ValueError(f"it has schema {found}, not {SCHEMA}")
    if database.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        with suppress(sqlite3.OperationalError):  # others have it open; one of the next will do it
            database.execute("PRAGMA journal_mode = WAL")


def _take_old(database: sqlite3.Connection) -> list[tuple[str, str, str]]:
    database.execute("ALTER TABLE picture RENAME TO old_picture")
    database.execute("ALTER TABLE consent RENAME TO old_consent")
    return database.execute(
        "SELECT id, statement, granted FROM old_consent ORDER BY rowid"
    ).fetchall()


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])
