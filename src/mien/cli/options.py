"""Options that several commands share, so that each means the same everywhere.

An option that is a setting is None when it is not given: then mien.toml or the environment may say
it, and else the default that is shown; see mien.settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mien import choice

PEOPLE, FACE, FILES, NETWORKS = "Whose face goes where", "The face", "Files", "Networks"
"""Titles of the groups of options in --help."""

Json = Annotated[bool, typer.Option("--json", help="Print a report as JSON, and nothing else.")]
SwapModel = Annotated[
    str | None,
    typer.Option(
        help="Swap network; see 'mien models'.",
        show_default="mien-256",
        rich_help_panel=NETWORKS,
    ),
]
Blend = Annotated[
    Literal["alpha", "poisson"] | None,
    typer.Option(
        help="Soft edge, or colours that also meet at the edge.",
        show_default="alpha",
        rich_help_panel=FACE,
    ),
]
Occlusion = Annotated[
    bool | None,
    typer.Option(
        "--occlusion/--no-occlusion",
        help="Keep before the face what is before it: hands, hair, rims of spectacles.",
        show_default="occlusion",
        rich_help_panel=FACE,
    ),
]
ColorMatch = Annotated[
    bool | None,
    typer.Option(
        "--color-match/--no-color-match",
        help="Give the swapped face the target's light.",
        show_default="color-match",
        rich_help_panel=FACE,
    ),
]
Label = Annotated[
    bool | None,
    typer.Option(
        "--label/--no-label",
        help="Draw a label on what is written: a face was edited.",
        show_default="no-label, unless the policy, a text or a place asks for it",
        rich_help_panel=FILES,
    ),
]
LabelText = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="What the label says.",
        show_default="that a face was edited, in your language",
        rich_help_panel=FILES,
    ),
]
LabelPlace = Annotated[
    Literal["bottom-right", "bottom-left", "top-right", "top-left"] | None,
    typer.Option(
        help="In which corner the label is.",
        show_default="bottom-right",
        rich_help_panel=FILES,
    ),
]
Detector = Annotated[
    str | None,
    typer.Option(
        help="Network that finds faces; see 'mien models'.",
        show_default="yunet",
        rich_help_panel=NETWORKS,
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(
        help="What runs the networks: cpu, cuda (or cuda:1), tensorrt, openvino, coreml, directml; "
        "by PyTorch, torch-cuda (torch-cuda:1 is the second GPU), torch-cpu; or auto, the fastest.",
        show_default="cpu",
        rich_help_panel=NETWORKS,
    ),
]
AllowFallback = Annotated[
    bool | None,
    typer.Option(
        "--allow-fallback/--no-allow-fallback",
        help="Let the CPU step in if the provider cannot run.",
        show_default="no-allow-fallback",
        rich_help_panel=NETWORKS,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        help="CPU threads of a network.",
        show_default="all cores",
        rich_help_panel=NETWORKS,
    ),
]
GpuMemory = Annotated[
    str | None,
    typer.Option(
        help="What the process may take of the GPU's memory: 4GB, 800MB, 50%. With --provider "
        "torch-cuda, auto, or cuda, where it is for each network.",
        show_default="all of it",
        rich_help_panel=NETWORKS,
    ),
]
Models = Annotated[
    Path | None,
    typer.Option(
        help="Folder with further model cards (*.toml) and weights.", rich_help_panel=NETWORKS
    ),
]
MaxDistance = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=2,
        help="Greatest cosine distance between two faces of one person.",
        show_default="the embedder's",
        rich_help_panel=PEOPLE,
    ),
]
MaxMegapixels = Annotated[
    float | None,
    typer.Option(
        help="Refuse pictures with more megapixels, all frames together.",
        show_default="250",
        rich_help_panel=FILES,
    ),
]
Order = Annotated[
    choice.Order | None,
    typer.Option(
        help="In which order faces are numbered.",
        show_default="large-small",
        rich_help_panel=PEOPLE,
    ),
]
