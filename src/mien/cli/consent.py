"""``mien consent``: who agreed to what, and to take it back."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mien.cli.console import Progress
from mien.cli.exits import Exit
from mien.cli.loading import load_swapper
from mien.cli.options import (
    AllowFallback,
    Detector,
    Json,
    MaxMegapixels,
    Models,
    Provider,
    SwapModel,
    Threads,
)
from mien.errors import ConsentUnconfirmed, InvalidOption

if TYPE_CHECKING:
    from mien.safety import Consent, Ledger

app = typer.Typer(
    help="Grant, list, show, revoke and export consent to the use of faces.", no_args_is_help=True
)

Record = Annotated[
    str, typer.Argument(metavar="RECORD", help="Id of a record, as 'mien consent list' shows it.")
]


@app.command()
def grant(
    pictures: Annotated[
        list[Path], typer.Argument(metavar="PICTURES...", help="Pictures of one person.")
    ],
    *,
    statement: Annotated[
        str, typer.Option(help="Whose face it is, and that its use is agreed to.")
    ],
    declares: Annotated[
        Literal["self", "other", "licensed", "no-real-person"],
        typer.Option(
            help="Who states it: the person in the pictures; somebody else, whom that person told "
            "that they agree; who has a licence that allows it; or that no real person is shown."
        ),
    ],
    they_agreed: Annotated[
        bool,
        typer.Option(
            "--they-agreed", help="With 'other': the person was asked, and agreed to this use."
        ),
    ] = False,
    adult: Annotated[
        bool,
        typer.Option(
            "--adult",
            help="State that the person is an adult: a face that is refused because it may be a "
            "minor's is then allowed, unless it clearly looks like one.",
        ),
    ] = False,
    purpose: Annotated[str, typer.Option(help="For what the face may be used.")] = "",
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="DAY",
            help="Last day on which it holds, in UTC: 2027-01-31.",
            show_default="no end",
        ),
    ] = None,
    model: SwapModel = None,
    detector: Detector = None,
    provider: Provider = None,
    allow_fallback: AllowFallback = None,
    threads: Threads = None,
    models: Models = None,
    max_megapixels: MaxMegapixels = None,
    as_json: Json = False,
) -> int:
    """Record consent to the use of the face in PICTURES, all of one person.

    It is remembered for these pictures, by their content; no picture is kept.
    """
    from mien.safety.consent import until
    from mien.settings import load

    settings = load(
        {
            "model": model,
            "detector": detector,
            "provider": provider,
            "allow_fallback": allow_fallback,
            "threads": threads,
            "models": models,
            "max_megapixels": max_megapixels,
        }
    ).settings
    until(expires)  # raises what is wrong with it before networks are loaded
    if declares == "other" and not they_agreed:
        they_agreed = _asked(pictures)
    with Progress(quiet=as_json) as progress:
        progress("Loading networks")
        swapper = load_swapper(settings)
        progress(f"Reading {pictures[0].name}")
        consent = swapper.grant(
            pictures,
            statement,
            declares=declares,
            they_agreed=they_agreed,
            adult=adult,
            purpose=purpose,
            expires=expires,
        )
    if as_json:
        print(json.dumps(_row(consent, swapper.ledger.now()), indent=2))
    else:
        print(f"{consent.id}: consent to the face in {len(consent.digests)} picture(s) is recorded")
    return Exit.SUCCESS


@app.command("list")
def listing(as_json: Json = False) -> None:
    """List all records, the oldest first."""
    ledger = _ledger()
    records, now = ledger.all(), ledger.now()
    rows = [_row(record, now) for record in records]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print(
        f"{'record':<18}  {'state':<7}  {'declares':<14}  {'granted':<10}  {'last day':<10}  "
        "statement"
    )
    for record, row in zip(records, rows, strict=True):
        last = (
            "-" if record.expires is None else f"{record.expires - timedelta(seconds=1):%Y-%m-%d}"
        )
        print(
            f"{record.id:<18}  {row['state']:<7}  {record.declares:<14}  "
            f"{record.granted:%Y-%m-%d}  {last:<10}  {record.statement}"
        )


@app.command()
def show(
    record: Record,
    face: Annotated[
        list[Path] | None,
        typer.Option(
            help="Picture the record was made of, to check that it is of this face; repeat it for "
            "all of them."
        ),
    ] = None,
    model: SwapModel = None,
    detector: Detector = None,
    provider: Provider = None,
    allow_fallback: AllowFallback = None,
    threads: Threads = None,
    models: Models = None,
    as_json: Json = False,
) -> int:
    """Show one record, and check its signature and, with --face, whose face it is for."""
    ledger = _ledger()
    row = _row(ledger.get(record), ledger.now())
    if face:
        from mien.settings import load

        flags = {
            "model": model,
            "detector": detector,
            "provider": provider,
            "allow_fallback": allow_fallback,
            "threads": threads,
            "models": models,
        }
        with Progress(quiet=as_json) as progress:
            progress("Loading networks")
            row["same_face"] = load_swapper(load(flags).settings).shows(record, face)
    if as_json:
        print(json.dumps(row, indent=2))
    else:
        for key, value in row.items():
            for line in value if isinstance(value, list) else [value]:
                print(f"{key:<10}  {_text(line)}")
    return Exit.SUCCESS if row.get("same_face", True) else Exit.FAILED


@app.command()
def revoke(
    records: Annotated[
        list[str] | None,
        typer.Argument(metavar="RECORD...", help="Ids, as 'mien consent list' shows them."),
    ] = None,
    *,
    picture: Annotated[
        list[Path] | None,
        typer.Option(help="Revoke all records for this picture; repeatable."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why. It is kept in the ledger.")] = "",
    as_json: Json = False,
) -> int:
    """Withdraw consent for good. Who agrees again is granted a new record.

    Swaps that are being made with it, also in other processes, are refused from now on.
    """
    ledger = _ledger()
    wanted = list(records or ())
    if picture:
        from mien.media import read_picture

        wanted += ledger.ids([read_picture(path).digest for path in picture])
    if not wanted:
        which = ", ".join(map(str, picture or ())) or None
        raise InvalidOption("RECORD", which, "an id, or a --picture for which there is a record")
    known = set(ledger.ids())
    for record in wanted:  # all of them or none
        if record not in known:
            raise InvalidOption("RECORD", record, "an id that 'mien consent list' shows")
    done = [ledger.revoke(record, reason=reason) for record in dict.fromkeys(wanted)]
    still = ledger.ids(sorted({digest for record in done for digest in record.digests}))
    if as_json:
        rows = [_row(record, record.revoked or record.granted) for record in done]
        print(json.dumps({"revoked": rows, "still_there": still}, indent=2))
        return Exit.SUCCESS
    for one in done:
        print(f"{one.id}: revoked")
    if still:
        print(
            f"mien: there are other records for these pictures: {', '.join(still)}.",
            file=sys.stderr,
        )
    return Exit.SUCCESS


@app.command()
def export(
    records: Annotated[
        list[str] | None,
        typer.Argument(metavar="RECORD...", help="Ids of records; all, if there are none."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, instead of printing.")
    ] = None,
) -> None:
    """Print records as JSON as they were signed, with the key by which others can check them."""
    text = json.dumps(_ledger().export(records or ()), indent=2)
    if output is None:
        print(text)
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise InvalidOption("output", str(output), allowed) from None


def _ledger() -> Ledger:
    from mien.safety import Ledger
    from mien.settings import load

    return Ledger(load().settings.ledger)


def _asked(pictures: list[Path]) -> bool:
    """Ask whether the other person agreed; raise if they did not, or nobody can be asked."""
    names = ", ".join(path.name for path in pictures)
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(
            f"The face in {names} is another person's. Did you ask them, and did they agree to "
            "this use?\nType 'yes' if so: ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        if sys.stdin.readline().strip().lower() == "yes":
            return True
    with _ledger().audit.refusals():
        raise ConsentUnconfirmed(names)


def _row(record: Consent, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {
        "record": record.id,
        "state": record.state(now),
        "statement": record.statement,
        "declares": record.declares,
        "granted": record.granted.isoformat(),
        "expires": record.expires and record.expires.isoformat(),
        "purpose": record.purpose,
        "pictures": list(record.digests),
        "commitment": record.commitment or None,
        "space": record.space or None,
    }
    if record.declares == "other":
        row["agreed"] = record.agreed
    if record.adult:
        row["adult"] = True
    if record.revoked is not None:
        row |= {"revoked": record.revoked.isoformat(), "reason": record.reason}
    return row


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in (None, "") else str(value)
