"""``mien train``: packs of faces, training runs, and the networks they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mien.errors import InvalidOption, MienError, OptionsConflict

if TYPE_CHECKING:
    from mien.train.recipe import Recipe

app = typer.Typer(help="Train a swap network of one's own.")

Progress = Annotated[float | None, typer.Option(min=0, max=1)]


@app.command()
def swap(
    data: Annotated[Path, typer.Option(help="Folder of packs; heldout* are for scores only.")],
    nets: Annotated[Path, typer.Option(help="Folder of the frozen networks.")],
    out: Annotated[Path, typer.Option(help="Folder for state, log, scores and pictures.")],
    config: Annotated[Path | None, typer.Option(help="The recipe, a TOML file.")] = None,
    state: Annotated[Path | None, typer.Option(help="State to begin from.")] = None,
    begin: Annotated[
        Path | None, typer.Option(help="Exported network (ONNX) to go on from.")
    ] = None,
    teacher: Annotated[
        Path | None, typer.Option(help="Exported mien-256 (ONNX) whose pictures are to be matched.")
    ] = None,
    follow: Annotated[
        Path | None,
        typer.Option(help="State that the teacher's own run writes; read at each checkpoint."),
    ] = None,
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
    device: Annotated[
        Literal["cuda", "cpu"], typer.Option(help="What trains; the CPU only for trials.")
    ] = "cuda",
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change one number of the recipe."),
    ] = None,
) -> None:
    """Train for some minutes or steps; the state can be taken up again later, elsewhere."""
    if minutes is not None and steps is not None:
        raise OptionsConflict("minutes", "steps", "one of them says when to end")
    if minutes is None and steps is None:
        raise InvalidOption("minutes", minutes, "a time, or --steps")
    if start is not None and start > stop:
        raise InvalidOption("from", start, f"at most {stop}, where --to ends")
    from mien.train.packs import names
    from mien.train.visit import HELD_OUT, Order, run

    if all(path.name.startswith(HELD_OUT) for path in names(data)):
        allowed = f"a folder of packs (NAME.bin), not only {HELD_OUT}* ones"
        raise InvalidOption("data", str(data), allowed)
    if not nets.is_dir():
        raise InvalidOption("nets", str(nets), "a folder of networks")
    if state is not None:
        _check_state("state", state)
    for name, path in (("begin", begin), ("teacher", teacher)):
        if path is not None and not path.is_file():
            raise InvalidOption(name, str(path), "an ONNX file that 'mien train export' wrote")
    if follow is not None and teacher is None:
        raise OptionsConflict("follow", "teacher", "there is no teacher to renew")
    recipe = _recipe(config, change or ())
    _check_device(device)
    _make("out", out)
    if keep is not None:
        _make("keep", keep)
    order = Order(
        data=data,
        nets=nets,
        out=out,
        state=state,
        begin=begin,
        teacher=teacher,
        follow=follow,
        keep=keep,
        minutes=minutes,
        steps=steps,
        start=start,
        stop=stop,
        device=device,
    )
    with _files_named(out):
        run(order, recipe)


@app.command()
def pack(
    folder: Annotated[Path, typer.Argument(help="Pictures, in one sub-folder for each person.")],
    out: Annotated[Path, typer.Argument(help="The pack's name, without a suffix.")],
    size: Annotated[int, typer.Option(min=64, max=2048, help="Side of the crops.")] = 256,
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
    from mien.train.build import Builder, Demands

    builder = Builder(Demands(size=size, sharpness=sharpness), age)
    tally = builder.build(folder, out, first_person=first_person, by_folder=by_folder)
    print(tally)


@app.command()
def export(
    state: Annotated[Path, typer.Argument(help="Folder of a training state.")],
    out: Annotated[Path, typer.Argument(help="The ONNX file to write.")],
    int8: Annotated[bool, typer.Option(help="Store large weights as int8.")] = True,
) -> None:
    """Write a state's network as an ONNX file."""
    _check_state("state", state)
    if out.is_dir():
        raise InvalidOption("out", str(out), "a file, not a folder")
    _make("out", out.parent)
    try:
        from mien.train.deliver import deliver

        # in a place of its own until it is whole and was tried
        with _files_named(out), TemporaryDirectory(prefix=".mien-", dir=out.parent) as place:
            size, apart = deliver(state, Path(place, "swapper.onnx"), int8=int8)
            Path(place, "swapper.onnx").replace(out)
    except ModuleNotFoundError as error:  # the installation is not whole
        raise MienError(f"{error.name} is needed to export: pip install --upgrade mien.") from None
    print(f"{out}: {size / 1e6:.1f} MB; its output is within {apart:.2g} of the network's")


def _recipe(config: Path | None, changes: Sequence[str]) -> Recipe:
    """Return the recipe in ``config`` with ``changes``; whatever is wrong with it is said now."""
    from mien.train.recipe import changed, read_recipe

    with _faults_of("config", str(config), "a recipe in TOML"):
        recipe = read_recipe(config)
        _ = recipe.swapper  # raises if there is no such network
    for setting in changes:
        with _faults_of("set", setting, "NAME=VALUE of the recipe"):
            if "=" not in setting:
                raise ValueError("there is no =")
            recipe = changed(recipe, [setting])
    with _faults_of("set", " ".join(changes), "a network that can be"):
        _ = recipe.swapper
    return recipe


@contextmanager
def _faults_of(option: str, value: str, allowed: str) -> Iterator[None]:
    """Report what a recipe raises as the fault of an option."""
    try:
        yield
    except MienError:
        raise
    except (OSError, ValueError, TypeError, KeyError) as error:
        why = getattr(error, "strerror", None) or str(error)
        if isinstance(error, KeyError):
            why = f"there is no {error}"
        raise InvalidOption(option, value, f"{allowed} ({why})") from error


@contextmanager
def _files_named(out: Path) -> Iterator[None]:
    """Say which file could not be read or written: elsewhere an OSError is the printed report's."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None:  # a message of our own
            raise MienError(f"{error}.") from error
        place = error.filename or f"a file in {out}"
        raise MienError(f"{place} could not be read or written: {error.strerror}.") from error


def _check_state(option: str, folder: Path) -> None:
    """Raise unless there is a training state in ``folder``; whether it is whole is seen later."""
    from mien.train.state import MANIFEST, WHOLE

    if not (folder / MANIFEST).is_file() and not (folder / WHOLE).is_file():
        raise InvalidOption(option, str(folder), f"a folder with {MANIFEST} or {WHOLE}")


def _check_device(device: str) -> None:
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        allowed = f"cpu, for PyTorch {torch.__version__} sees no CUDA GPU here"
        raise InvalidOption("device", device, allowed)


def _make(option: str, folder: Path) -> None:
    """Make an output folder and try to write in it, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".mien-", dir=folder):
            pass
    except OSError as error:
        why = f"a folder to write in ({error.strerror})"
        raise InvalidOption(option, str(folder), why) from None
