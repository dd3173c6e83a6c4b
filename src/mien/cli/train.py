"""``mien train``: packs of faces, training runs, and the networks they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Train a swap network of one's own.")

Progress = Annotated[float | None, typer.Option(min=0, max=1)]


@app.command()
def swap(
    data: Annotated[Path, typer.Option(help="Folder of packs; heldout* are for scores only.")],
    nets: Annotated[Path, typer.Option(help="Folder of the frozen networks.")],
    out: Annotated[Path, typer.Option(help="Folder for state, log, scores and pictures.")],
    config: Annotated[Path | None, typer.Option(help="The recipe, a TOML file.")] = None,
    state: Annotated[Path | None, typer.Option(help="State to begin from.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder for a state to resume exactly.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Time for all of it.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps instead of minutes.")] = None,
    start: Annotated[
        float | None,
        typer.Option(
            "--from", min=0, max=1, help="Progress to begin at.", show_default="the state's"
        ),
    ] = None,
    stop: Annotated[float, typer.Option("--to", min=0, max=1, help="Progress to end at.")] = 1.0,
    device: Annotated[str, typer.Option(help="cuda or cpu.")] = "cuda",
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change one number of the recipe."),
    ] = None,
) -> None:
    """Train for some minutes or steps; the state can be taken up again later, elsewhere."""
    from mien.errors import InvalidOption
    from mien.train.recipe import changed, read_recipe
    from mien.train.visit import Order, run

    if (minutes is None) == (steps is None):
        raise InvalidOption("minutes", minutes, "either --minutes or --steps")
    order = Order(
        data=data,
        nets=nets,
        out=out,
        state=state,
        keep=keep,
        minutes=minutes,
        steps=steps,
        start=start,
        stop=stop,
        device=device,
    )
    run(order, changed(read_recipe(config), change or []))


@app.command()
def pack(
    folder: Annotated[Path, typer.Argument(help="Pictures, in one sub-folder for each person.")],
    out: Annotated[Path, typer.Argument(help="The pack's name, without a suffix.")],
    size: Annotated[int, typer.Option(min=64, help="Side of the crops.")] = 256,
    age: Annotated[
        Path | None,
        typer.Option(help="Age network (ONNX); faces estimated younger than 24 are left out."),
    ] = None,
    first_person: Annotated[int, typer.Option(min=0, help="Number of the first person.")] = 0,
    by_folder: Annotated[
        bool, typer.Option(help="One person for each sub-folder, or for each picture.")
    ] = True,
    sharpness: Annotated[float, typer.Option(min=0, help="Least sharpness, 0 to 255.")] = 0.0,
) -> None:
    """Find, align and filter the faces of pictures, and write them as a pack."""
    from dataclasses import asdict

    from mien.train.build import Builder, Demands

    builder = Builder(Demands(size=size, sharpness=sharpness), age)
    tally = builder.build(folder, out, first_person=first_person, by_folder=by_folder)
    print(", ".join(f"{count} {name}" for name, count in asdict(tally).items() if count))


@app.command()
def export(
    state: Annotated[Path, typer.Argument(help="Folder of a training state.")],
    out: Annotated[Path, typer.Argument(help="The ONNX file to write.")],
    int8: Annotated[bool, typer.Option(help="Store large weights as int8.")] = True,
) -> None:
    """Write a state's network as an ONNX file."""
    from mien.train.deliver import deliver

    size, apart = deliver(state, out, int8=int8)
    print(f"{out}: {size / 1e6:.1f} MB; its output is within {apart:.2g} of the network's")
