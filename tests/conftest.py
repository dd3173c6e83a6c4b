"""Fixtures: bundled CC0 portraits, pictures made of them, and engines without weights."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis.configuration import set_hypothesis_home_dir
from PIL import Image
from torch import Tensor

from mien import Catalogue, Swapper
from mien.cli.app import run
from mien.engines import OnnxEngine, Port
from mien.loader import Loader
from mien.pipeline import FaceFinder, Imprint
from mien.safety import Ledger

ROOT = Path(__file__).parent.parent
PORTRAITS = ROOT / "examples" / "portraits"
set_hypothesis_home_dir(ROOT / ".hypothesis")
# Small tensors: more threads only wait for each other on a busy machine.
torch.set_num_threads(1)
# A shell that starts a run in the background lets it ignore interrupts, which tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

CONSENT = "Generated portraits: no real person is shown."


@pytest.fixture(autouse=True, scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep the tests away from the user's ledger and settings, and the user's away from them."""
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith("MIEN_")]:
        patch.delenv(name)
    folder, settings, here = (tmp_path_factory.mktemp(name) for name in ("home", "user", "here"))
    patch.setenv("MIEN_HOME", str(folder))
    patch.setenv("XDG_CONFIG_HOME", str(settings))  # for processes that tests start
    patch.setenv("OMP_NUM_THREADS", "1")  # as below, in those processes
    patch.setattr("mien.settings.user_config_path", lambda name, appauthor: settings / name)
    temporary = tmp_path_factory.mktemp("temporary")
    patch.setenv("TMPDIR", str(temporary))
    patch.setattr(tempfile, "tempdir", str(temporary))
    patch.chdir(here)  # a mien.toml in or above the folder of the code is not ours
    return folder


@pytest.fixture(scope="session")
def portraits() -> dict[str, Path]:
    return {path.stem: path for path in sorted(PORTRAITS.glob("*.jpg"))}


@pytest.fixture(scope="session")
def swapper(home: Path) -> Swapper:
    """The default swapper; it keeps no state between pictures but its cache."""
    return Swapper()


def face_finder(detector: str = "yunet") -> FaceFinder:
    """Return what finds faces, with the networks that ship."""
    return Loader(Catalogue(), "cpu", allow_fallback=False, threads=None).finder(detector)


@pytest.fixture(scope="session")
def find() -> FaceFinder:
    return face_finder()


@pytest.fixture(scope="session")
def load(portraits: dict[str, Path]) -> Callable[[str], npt.NDArray[np.uint8]]:
    """Return a portrait by name as an RGB array."""

    def pixels(name: str) -> npt.NDArray[np.uint8]:
        with Image.open(portraits[name]) as image:
            return np.array(image.convert("RGB"))

    return pixels


@pytest.fixture
def mien_(capsys, monkeypatch):
    """Run a command without a terminal; return its code and what it printed."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def command(*arguments):
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return int(code), *capsys.readouterr()

    return command


@pytest.fixture
def unheard(monkeypatch, swapper, tmp_path):
    """Let the swapper have a ledger in which nobody has spoken, whatever other tests have said."""
    monkeypatch.setattr(swapper, "ledger", Ledger(folder=tmp_path / "unheard"))


@pytest.fixture
def loaded(monkeypatch, swapper):
    """Let commands use the swapper that is loaded already, and a swap that is a mere negative."""
    call = OnnxEngine.__call__

    def quick(engine, inputs):
        return {"output": -inputs["target"]} if engine.model == "mien-256" else call(engine, inputs)

    monkeypatch.setattr("mien.swapper.Swapper", lambda **options: swapper)
    monkeypatch.setattr(OnnxEngine, "__call__", quick)


@pytest.fixture
def built(monkeypatch):
    """Record the options of the swappers that commands build; none is built."""
    record = []

    class Built(Exception):
        pass

    def build(**options):
        record.append(options)
        raise Built

    monkeypatch.setattr("mien.swapper.Swapper", build)
    return record


@pytest.fixture
def lock(monkeypatch):
    """Return what locks a folder, so that nothing in it can be seen, read or written."""
    locked: list[Path] = []
    scandir = os.scandir

    def guarded(function):
        def call(path, *arguments, **options):
            if isinstance(path, str | os.PathLike):
                for folder in locked:
                    place = Path(os.path.abspath(path))  # noqa: PTH100
                    inside = folder in place.parents
                    if inside or (place == folder and function is scandir):
                        raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return function(path, *arguments, **options)

        return call

    def lock_folder(folder):
        folder.chmod(0)
        try:
            list(folder.iterdir())
        except PermissionError:
            pass
        else:  # an administrator may look everywhere
            for name in ("stat", "lstat", "open", "mkdir", "scandir"):
                monkeypatch.setattr(os, name, guarded(getattr(os, name)))
            monkeypatch.setattr(io, "open", guarded(io.open))
        locked.append(folder)

    yield lock_folder
    monkeypatch.undo()
    for folder in locked:
        folder.chmod(0o700)


@pytest.fixture(scope="module")
def people(portraits, tmp_path_factory):
    """Return small copies of the portraits by name: faces of some 90 px."""
    folder = tmp_path_factory.mktemp("people")
    for name, path in portraits.items():
        with Image.open(path) as image:
            image.resize((256, 256)).save(folder / f"{name}.png")
    return {name: folder / f"{name}.png" for name in portraits}


@pytest.fixture
def painted(monkeypatch):
    """A swap network that paints, as the real one takes a tenth of a second a face."""
    from filmed import negative

    call = OnnxEngine.__call__

    def quick(engine, inputs):
        return negative(inputs) if engine.model == "mien-256" else call(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", quick)


@pytest.fixture
def no_watermark(monkeypatch):
    """Write no watermark: for tests of what lies beneath it. The product has no such switch."""
    monkeypatch.setattr(Imprint, "of", lambda imprint, produced: imprint)


@pytest.fixture
def one_watermark(monkeypatch):
    """Write the same watermark into all files, so that two can be compared, whatever their ids."""
    monkeypatch.setattr(Imprint, "of", lambda imprint, produced: Imprint(imprint.label, "0" * 32))


@pytest.fixture(scope="module")
def dev(swapper, portraits):
    return swapper.identity(portraits["dev"], consent=CONSENT)


@pytest.fixture(scope="module")
def clips(portraits, tmp_path_factory):
    """Clips by name: one face, late and gone again; two that cross; nobody."""
    from filmed import along, film, head

    from mien.evaluate.moving import Place

    folder = tmp_path_factory.mktemp("clips")
    lossless = {"codec": "ffv1"}
    ben = head(portraits, "ben", along(100, 120, 80))
    late = head(portraits, "ben", lambda t: Place(150, 120) if 0.3 <= t < 0.7 else None)
    left = head(portraits, "ada", along(70, 120, 140), 130)
    right = head(portraits, "ben", along(250, 110, -140), 130)
    return {
        "one": film(folder / "one.mp4", [ben]),
        "exact": film(folder / "exact.mkv", [ben], frames=6, **lossless),
        "long": film(folder / "long.mkv", [ben], frames=25, **lossless),
        "late": film(folder / "late.mkv", [late], frames=25, **lossless),
        "two": film(folder / "two.mp4", [left, right], frames=30),
        "nobody": film(folder / "nobody.mp4", [], frames=12),
    }


class StandIn:
    """An engine that computes its outputs with a function: a network without weights."""

    def __init__(
        self,
        function: Callable[[Mapping[str, Tensor]], dict[str, Tensor]],
        safe: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] | None = None,
        model: str = "stand-in",
    ) -> None:
        self.model, self.provider = model, "cpu"
        self.inputs: tuple[Port, ...] = ()
        self.outputs: tuple[Port, ...] = ()
        self.calls = 0
        self._function, self._safe = function, safe or function

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.calls += 1
        return self._function(inputs)

    def safer(self) -> StandIn:
        return StandIn(self._safe, model=self.model)


def scene(portraits: list[npt.NDArray[np.uint8]], side: int, columns: int) -> Tensor:
    """Return a frame, uint8 (H, W, 3), with the portraits in a grid of squares."""
    tiles = [np.array(Image.fromarray(p).resize((side, side))) for p in portraits]
    tiles += [np.full((side, side, 3), 127, np.uint8)] * (-len(tiles) % columns)
    rows = [np.hstack(tiles[i : i + columns]) for i in range(0, len(tiles), columns)]
    return torch.from_numpy(np.ascontiguousarray(np.vstack(rows)))


@contextmanager
def nothing_waits() -> Iterator[None]:
    """Raise RuntimeError where the processor would have to wait for a GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that it does not find all
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
