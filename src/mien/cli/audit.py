"""``mien audit``: whether the log of what was done is whole."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from mien.cli.options import Json
from mien.errors import AuditBroken

app = typer.Typer(help="Check the log of what was agreed to, refused and swapped.",
                  no_args_is_help=True)  # fmt: skip


@app.command()
def verify(as_json: Json = False) -> None:
    """Read all of the audit log; say which line of which file was edited, moved or removed.

    Records that were revoked according to the log must be so in the ledger, too.
    """
    from mien.safety import Ledger
    from mien.settings import load

    ledger = Ledger(load().settings.ledger)
    checked = ledger.audit.verify()
    own = ledger.id
    revoked = {record.id for record in ledger.all() if record.revoked}
    for name, record in checked.revoked:
        if name == own and record not in revoked:
            reason = f"it says that {record} was revoked, and the ledger {ledger.path} does not; an"
            raise AuditBroken(ledger.audit.folder, 0, f"{reason} older copy was put in its place")
    if as_json:
        report = {key: value for key, value in asdict(checked).items() if key != "revoked"}
        print(json.dumps({"folder": str(ledger.audit.folder), **report}, indent=2))
    elif not checked.lines:
        print(f"{ledger.audit.folder}: there is no log yet")
    else:
        print(f"{ledger.audit.folder}: {checked.lines} lines in {checked.files} file(s), all whole")
        print(f"the last line has sha256 {checked.last}")
