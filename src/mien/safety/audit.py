"""The audit log: what was agreed to, refused and swapped, in lines that cannot be changed unseen.

Each line is JSON and holds the sha256 of the one before, its own, and a signature. ``head.json``
says, signed, which line is the last, so that a log that was cut short is noticed. Files are named
audit-00001.jsonl and so on; the chain goes on from one to the next. No line names a picture or a
person: records are named by their ids, and outputs by their sha256.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mien.errors import AuditBroken, AuditUnwritable, MienError, Refused
from mien.safety.keys import WAIT, Key, canonical, write_whole

log = logging.getLogger(__name__)

SIZE = 1 << 20
"""Bytes from which on a new file is begun."""

LARGEST = 256 << 20
"""Bytes of the largest output whose sha256 is logged: half a second."""

NOTHING = "0" * 64
"""What the first line has in the place of the hash of the one before."""


@dataclass(frozen=True, slots=True)
class Head:
    """Which line is the last."""

    file: int = 1
    """Number of its file, from 1."""

    line: int = 0
    """Its number in that file, from 1; 0 if the file has none yet."""

    at: int = 0
    """Where it begins, in bytes from the file's beginning."""

    size: int = 0
    """Where it ends: the size of the file."""

    count: int = 0
    """Its number in the log, from 1."""

    hash: str = NOTHING


@dataclass(frozen=True, slots=True)
class Checked:
    """A log that is whole."""

    files: int
    lines: int
    last: str
    """Hash of the last line. Who noted it elsewhere can tell later that nothing before changed."""

    revoked: tuple[tuple[str, str], ...]
    """Ledgers and records that were revoked, according to the log."""


class AuditLog:
    """The log in ``folder``, signed with ``key``. Safe for many threads and processes.

    A new file is begun when one has ``size`` bytes. The folder is made at the first line.
    """

    def __init__(self, folder: Path, key: Key, *, size: int = SIZE) -> None:
        self.folder, self.key, self.size = folder, key, size

    def append(self, event: str, **data: Any) -> None:
        """Write a line that says that ``event`` happened; when this returns it is on the disk.

        Raises AuditUnwritable, and AuditBroken if the end of the log is not what was written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked():
                head = self._end()
                if not head.count:
                    head = self._write(head, "log.begun", {"log": secrets.token_hex(16)})
                elif head.size >= self.size:
                    head = replace(head, file=head.file + 1, line=0, at=0, size=0)
                self._write(head, event, data)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise AuditUnwritable(self.folder, why) from error

    @contextmanager
    def refusals(self, records: Sequence[str] = ()) -> Iterator[None]:
        """Log it when the block is refused. A log that fails is warned of, as nothing is done."""
        try:
            yield
        except Refused as error:
            named = [str(error.record)] if hasattr(error, "record") else list(records)
            try:
                self.append("refused", reason=type(error).__name__, records=named)
            except MienError as failure:
                log.warning("A refusal is not in the audit log: %s", failure)
            raise

    def done(self, output: Path, *, beside: Sequence[Path] = (), **data: Any) -> None:
        """Log that ``output`` was made; else take it and what is ``beside`` it away, and raise.

        Raises as ``append`` does.
        """
        try:
            self.append("swap.done", output=_sha256(output), **data)
        except BaseException:
            for path in (output, *beside):
                with suppress(OSError):
                    path.unlink()
            raise

    def written(self, watermark: str) -> dict[str, Any] | None:
        """Return the line that tells of a file written with ``watermark``, if there is one.

        Only the line itself is checked, and not the log; see ``verify``. A log that cannot be read
        has none.
        """
        sign = f'"watermark":"{watermark}"'.encode()
        for number in self._numbers():
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                for raw in self._path(number).read_bytes().splitlines():
                    if sign not in raw:
                        continue
                    line: dict[str, Any] = json.loads(raw)
                    signature, own = line.pop("signature"), line.pop("hash")
                    same = hashlib.sha256(canonical(line).encode()).hexdigest() == own
                    if same and self.key.verify("audit", own, signature):
                        return line
        return None

    def verify(self) -> Checked:
        """Read all of the log and return what there is. Raises AuditBroken, which says where."""
        if not self.folder.exists():
            return Checked(0, 0, NOTHING, ())
        try:
            with self._locked(if_possible=True):
                return self._verify()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise AuditBroken(self.folder, 0, f"it cannot be read ({why})") from error

    def _verify(self) -> Checked:
        head, place, revoked = self._head(), Head(), []
        for number in range(1, 1 + max([head.file, *self._numbers()])):
            start = place = replace(place, file=number, line=0, at=0, size=0)
            path = self._path(number)
            if not path.exists():
                if number > head.file or not head.count:
                    continue
                raise AuditBroken(path, 0, "the file is missing")
            for found, line in self._follow(start, path.read_bytes(), head):
                place = found
                if place.count == head.count and place.hash != head.hash:
                    reason = "it is not the line that the signed head names"
                    raise AuditBroken(path, place.line, reason)
                if line["event"] == "consent.revoked":
                    revoked.append((str(line["ledger"]), str(line["record"])))
        if place.count < head.count:
            raise AuditBroken(
                self._path(head.file),
                0,
                f"the end was cut off: the signed head tells of {head.count} lines in the log, and "
                f"{place.count} are there",
            )
        return Checked(len(self._numbers()), place.count, place.hash, tuple(revoked))

    def _end(self) -> Head:
        """Return the last line. One that was written before its head could be counts as well."""
        head = self._head()
        if not head.count:
            return head
        path = self._path(head.file)
        try:
            with path.open("rb") as file:
                file.seek(head.at)
                rest = file.read()
        except FileNotFoundError:
            raise AuditBroken(path, 0, "the file is missing") from None
        last, more = rest[: head.size - head.at], rest[head.size - head.at :]
        if len(last) < head.size - head.at:
            raise AuditBroken(path, 0, "the end was cut off")
        before = replace(head, line=head.line - 1, count=head.count - 1, size=head.at)
        found = next(self._follow(before, last, head, chained=False), None)
        if found is None or found[0].hash != head.hash:
            raise AuditBroken(path, head.line, "it is not the line that the signed head names")
        head = self._last(head, more, head)
        following = self._path(head.file + 1)
        if following.exists():
            start = replace(head, file=head.file + 1, line=0, at=0, size=0)
            last_one = self._last(start, following.read_bytes(), head)
            head = head if last_one is start else last_one
        return head

    def _last(self, place: Head, content: bytes, head: Head) -> Head:
        """Return the last line of ``content``, which begins after ``place``, or that."""
        return next((found for found, _ in reversed([*self._follow(place, content, head)])), place)

    def _follow(
        self, place: Head, content: bytes, head: Head, *, chained: bool = True
    ) -> Iterator[tuple[Head, dict[str, Any]]]:
        """Yield the lines of ``content``, which begins after ``place``, each with its place.

        What a crash left of a line that no head tells of is passed over.
        """
        path = self._path(place.file)
        for raw in content.splitlines(keepends=True):
            number, count = place.line + 1, place.count + 1
            if not raw.endswith(b"\n") and count > head.count:
                return
            try:
                line = json.loads(raw)
                signature, own = line.pop("signature"), line.pop("hash")
                n, before = line["n"], line["before"]
                same = hashlib.sha256(canonical(line).encode()).hexdigest() == own
            except (ValueError, KeyError, TypeError, AttributeError):
                raise AuditBroken(path, number, "it is no line of a log; it was edited") from None
            if not same or not self.key.verify("audit", own, signature):
                raise AuditBroken(path, number, "it was edited, or written with another key")
            if n != count:
                moved = f"lines {count} to {n - 1} of the log were removed, or moved behind it"
                reason = moved if n > count else f"line {n} of the log was moved, or is there twice"
                raise AuditBroken(path, number, reason)
            if chained and before != place.hash:
                raise AuditBroken(path, number, "it does not follow the line before; one of another"
                                  " log took the place of either")  # fmt: skip
            start = place.size
            place = Head(place.file, number, start, start + len(raw), count, own)
            yield place, line

    def _write(self, head: Head, event: str, data: dict[str, Any]) -> Head:
        line = {
            **data,
            "n": head.count + 1,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": event,
            "before": head.hash,
        }
        own = hashlib.sha256(canonical(line).encode()).hexdigest()
        signed = {**line, "hash": own, "signature": self.key.sign("audit", own)}
        raw = canonical(signed).encode() + b"\n"
        path = self._path(head.file)
        number = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        with os.fdopen(number, "r+b") as file:
            file.truncate(head.size)  # what a crash left of a line
            file.seek(head.size)
            try:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    file.truncate(head.size)
                raise
        end = head.size + len(raw)
        after = Head(head.file, head.line + 1, head.size, end, head.count + 1, own)
        body = canonical(asdict(after))
        content = {"body": body, "signature": self.key.sign("audit head", body)}
        write_whole(self._head_path, json.dumps(content).encode())
        return after

    def _head(self) -> Head:
        """Return what the head says, or one of nothing if there is no log yet."""
        try:
            content = json.loads(self._head_path.read_bytes())
            body, signature = content["body"], content["signature"]
        except FileNotFoundError:
            first = self._path(1)
            if not self._numbers() or (len(self._numbers()) == 1 and self._torn(first)):
                return Head()
            raise AuditBroken(self._head_path, 0, "the file is missing") from None
        except (ValueError, KeyError, TypeError):
            raise AuditBroken(self._head_path, 0, "it was edited") from None
        if not self.key.verify("audit head", body, signature):
            raise AuditBroken(self._head_path, 0, "it was edited, or written with another key")
        return Head(**json.loads(body))

    def _torn(self, path: Path) -> bool:
        """Return whether a crash came before the first head: there is one line at most."""
        with suppress(FileNotFoundError):
            return path.read_bytes().count(b"\n") <= 1
        return False

    @property
    def _head_path(self) -> Path:
        return self.folder / "head.json"

    def _path(self, number: int) -> Path:
        return self.folder / f"audit-{number:05}.jsonl"

    def _numbers(self) -> list[int]:
        names = (path.stem.removeprefix("audit-") for path in self.folder.glob("audit-*.jsonl"))
        return sorted(int(name) for name in names if name.isdecimal())

    @contextmanager
    def _locked(self, *, if_possible: bool = False) -> Iterator[None]:
        from filelock import FileLock

        lock = FileLock(self.folder / "lock", timeout=WAIT, mode=0o600)
        try:
            lock.acquire()
        except OSError:  # a log may be looked at where nothing can be written
            if not if_possible:
                raise
        try:
            yield
        finally:
            lock.release()


def _sha256(path: Path) -> str | None:
    """Return the sha256 of a file in hexadecimal; None if it is too large for that."""
    with suppress(OSError):
        if path.stat().st_size <= LARGEST:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return None
