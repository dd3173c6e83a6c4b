"""Options that several commands share, so that each means the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print a report as JSON, and nothing else.")]
Detector = Annotated[str, typer.Option(help="Network that finds faces; see 'mien models'.")]
Provider = Annotated[
    str,
    typer.Option(help="What runs the networks: cpu, cuda, tensorrt, openvino, coreml, directml."),
]
AllowFallback = Annotated[
    bool, typer.Option("--allow-fallback", help="Let the CPU step in if the provider cannot run.")
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="CPU threads of a network; all cores by default.")
]
Models = Annotated[
    Path | None, typer.Option(help="Folder with further model cards (*.toml) and weights.")
]
