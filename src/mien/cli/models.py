"""``mien models``: which networks there are, and on what terms."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mien.cli.options import Json, Models

if TYPE_CHECKING:
    from mien.models import Card

app = typer.Typer(help="List the networks, their licences, and whether they are present.")


@app.callback(invoke_without_command=True)
def listing(context: typer.Context, models: Models = None, as_json: Json = False) -> None:
    """List the networks, their licences, and whether they are present."""
    if context.invoked_subcommand is not None:
        return
    from mien.models import Catalogue

    cards = list(Catalogue(models))
    if as_json:
        print(json.dumps([_row(card) for card in cards], indent=2))
        return
    wide = max(len(card.name) for card in cards)
    terms = max(len(card.licence) for card in cards)
    print(f"{'name':<{wide}}  role       {'size':>8}  {'licence':<{terms}}  commercial  present")
    for card in cards:
        print(
            f"{card.name:<{wide}}  {card.role:<9}  {card.size / 1e6:>5.1f} MB  "
            f"{card.licence:<{terms}}  {_yes(card.commercial):<10}  {_yes(card.present)}"
        )


@app.command()
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of a network, as 'mien models' lists it.")],
    models: Models = None,
    as_json: Json = False,
) -> None:
    """Show the card of one network and check its file."""
    from mien.models import Catalogue

    # options given before 'show' count too
    before = context.parent.params if context.parent else {}
    models, as_json = models or before.get("models"), as_json or before.get("as_json", False)
    card = Catalogue(models).card(name)
    card.read()  # raises what is wrong with the file
    row = _row(card) | {
        "summary": card.summary,
        "origin": card.origin,
        "sha256": card.sha256,
        "file": str(card.file),
        "notice": str(card.notice) if card.notice else None,
        "measured": dict(card.measured),
        "contract": asdict(card.contract),
    }
    if as_json:
        print(json.dumps(row, indent=2))
        return
    print(f"{card.name}: {card.summary}\n")
    for key in ("role", "licence", "commercial", "size", "origin", "file", "sha256", "notice"):
        print(f"{key:<11} {_text(row[key])}")
    print(f"{'checked':<11} the file is the one the card describes")
    for title in ("contract", "measured"):
        if row[title]:
            print(f"\n{title}")
            for key, value in row[title].items():
                print(f"  {key}: {_text(value)}")


def _row(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "role": card.role,
        "size": card.size,
        "licence": card.licence,
        "commercial": card.commercial,
        "present": card.present,
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return _yes(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return str(value)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
