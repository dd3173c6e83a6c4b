"""``mien config``: the settings in force, and where each value came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from mien.cli.options import Json

app = typer.Typer(help="Show the settings in force, and where each value came from.")


@app.callback(invoke_without_command=True)
def config(context: typer.Context) -> None:
    """Show the settings in force, and where each value came from."""
    if context.invoked_subcommand is None:
        show()


@app.command()
def show(as_json: Json = False) -> None:
    """Show each setting with its value, its origin and what is allowed."""
    from mien.settings import Settings, load

    loaded = load()
    values = {key: _plain(value) for key, value in loaded.settings}
    if as_json:
        report = {
            "settings": {
                key: {"value": value, "origin": loaded.origins[key]}
                for key, value in values.items()
            },
            "files": [
                {"path": str(path), "present": there} for path, there in loaded.files.items()
            ],
        }
        print(json.dumps(report, indent=2))
        return
    rows = [("key", "value", "origin", "allowed")]
    for key, field in Settings.model_fields.items():
        rows.append((key, _text(values[key]), loaded.origins[key], field.description or ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *cells, allowed in rows:
        start = "  ".join(f"{cell:<{wide}}" for cell, wide in zip(cells, widths, strict=True))
        print(f"{start}  {allowed}")
    print("\nfiles: the user's, then the nearest of this folder and those above it")
    for path, there in loaded.files.items():
        print(f"{'present' if there else 'absent':<7}  {path}")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _text(value: Any) -> str:
    """Write a value as ``mien.toml`` has it, without quotes; that file has no word for None."""
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)
