"""How well watermarks last, are hidden, and are not found where there are none.

    python benchmarks/watermark.py [--extractor FILE] [--pictures DIR ...] [--quick] [--json FILE]

Beside mien's stand DWT-DCT with the same code and PSNR, and RivaGAN (32 bits, no code) if the
package ``invisible-watermark`` is installed. All damage is done by the real thing: Pillow's codecs
and filters, and x264.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter
from torch import Tensor

from mien.engines import OnnxEngine
from mien.pipeline.imprint import BOLD, EVERY
from mien.safety.watermark import Finder, Marker, code, marked
from mien.safety.watermark.dwtdct import DwtDct
from mien.safety.watermark.finding import AGREED
from mien.watermarked import shipped

PORTRAITS = Path(__file__).parent.parent / "examples" / "portraits"
SKY = ((96, 148, 214), (186, 211, 236))
"""Colours of a drawn sky, above and below."""

CPU = torch.device("cpu")

NAMES = ("mien", "dwt-dct", "rivagan")

Picture = Image.Image
Change = Callable[[Picture], Picture]


@dataclass(frozen=True, eq=False)
class Scheme:
    """A watermark: what lays it on frames, uint8 (H, W, 3), and what reads it from some."""

    name: str
    marker: Callable[..., Callable[[Tensor], Tensor]]
    """Takes a number, and ``film`` for a clip; returns what lays it on frame after frame."""

    read: Callable[[Sequence[Tensor]], int | None]
    bits: int = code.IDENTIFIER
    rare: bool = True
    """Whether what it reads by chance is no number."""


def ours(extractor: Path | None, device: torch.device, threads: int) -> Scheme:
    """Return mien's watermark, with another extractor if one is given."""
    extract = shipped(threads) if extractor is None else extractor_of(extractor, threads)
    finder = Finder(extract)

    def marker(number: int, *, film: bool = False) -> Callable[[Tensor], Tensor]:
        mark = Marker(number, every=EVERY, bold=BOLD) if film else Marker(number)

        def laid(pixels: Tensor) -> Tensor:
            there = pixels.to(device)
            return marked(there, mark).to(pixels.device)

        return laid

    def read(frames: Sequence[Tensor]) -> int | None:
        found = finder(frames)
        return None if found is None else found.identifier

    return Scheme("mien", marker, read)


def extractor_of(path: Path, threads: int) -> Callable[[Tensor], Tensor]:
    """Return a trained extractor that ONNX Runtime runs."""
    engine = OnnxEngine(path.stem, path.read_bytes, threads=threads)
    return lambda y: engine({"brightness": y})["tile"]


def dwt_dct() -> Scheme:
    """Return the reference without learning."""
    reference = DwtDct()

    def marker(number: int, *, film: bool = False) -> Callable[[Tensor], Tensor]:
        del film
        bits = torch.from_numpy(code.write(number)).float()[None] * 2 - 1
        return lambda pixels: reference.laid(pixels, bits)

    def read(frames: Sequence[Tensor]) -> int | None:
        said = torch.stack([reference.said(pixels) for pixels in frames]).sum(dim=0)
        word = code.read(said.double().numpy())
        return None if word is None or word.agreement < AGREED else word.identifier

    return Scheme("DWT-DCT", marker, read)


def rivagan() -> Scheme | None:
    """Return RivaGAN of the package invisible-watermark, or None without it."""
    try:
        package: Any = importlib.import_module("imwatermark")
    except ImportError:
        return None
    package.WatermarkEncoder.loadModel()
    package.WatermarkDecoder.loadModel()

    def marker(number: int, *, film: bool = False) -> Callable[[Tensor], Tensor]:
        del film
        encoder = package.WatermarkEncoder()
        encoder.set_watermark("bits", [number >> place & 1 for place in range(32)])

        def laid(pixels: Tensor) -> Tensor:
            done = encoder.encode(np.ascontiguousarray(pixels.numpy()[..., ::-1]), "rivaGan")
            return torch.from_numpy(np.ascontiguousarray(done[..., ::-1]))

        return laid

    def read(frames: Sequence[Tensor]) -> int | None:
        if min(frames[0].shape[:2]) < 257:
            return None  # the package refuses
        decoder = package.WatermarkDecoder("bits", 32)
        said = np.array(
            [
                decoder.decode(np.ascontiguousarray(pixels.numpy()[..., ::-1]), "rivaGan")
                for pixels in frames
            ],
            dtype=float,
        )
        return sum(1 << place for place in np.flatnonzero(said.mean(axis=0) > 0.5).tolist())

    return Scheme("RivaGAN, 32 bits", marker, read, 32, rare=False)


def tensor(picture: Picture) -> Tensor:
    return torch.from_numpy(np.array(picture.convert("RGB")))


def image(pixels: Tensor) -> Picture:
    return Image.fromarray(pixels.numpy())


def coded(picture: Picture, kind: str, quality: int) -> Picture:
    file = io.BytesIO()
    picture.save(file, kind, quality=quality)
    return Image.open(file).convert("RGB")


def sized(picture: Picture, factor: float) -> Picture:
    size = (round(picture.width * factor), round(picture.height * factor))
    return picture.resize(size, Image.Resampling.LANCZOS)


def cropped(picture: Picture, share: float, across: float, down: float) -> Picture:
    """Keep ``share`` of each side, from a place of 0 to 1 of what is left."""
    width, height = round(picture.width * share), round(picture.height * share)
    left, top = round((picture.width - width) * across), round((picture.height - height) * down)
    return picture.crop((left, top, left + width, top + height))


def screenshot(picture: Picture) -> Picture:
    shown = sized(cropped(picture, 0.9, 0.3, 0.7), 0.75)
    shown = ImageEnhance.Contrast(ImageEnhance.Brightness(shown).enhance(1.08)).enhance(0.92)
    return coded(shown, "JPEG", 75)


def changes() -> dict[str, Change]:
    """Return damage to pictures by name."""
    return {
        "none": lambda p: p,
        "JPEG 75": lambda p: coded(p, "JPEG", 75),
        "JPEG 50": lambda p: coded(p, "JPEG", 50),
        "WebP 60": lambda p: coded(p, "WEBP", 60),
        "resize 0.5": lambda p: sized(p, 0.5),
        "resize 2": lambda p: sized(p, 2),
        "crop 0.7": lambda p: cropped(p, 0.7, 0.5, 0.5),
        "crop 0.7, corner": lambda p: cropped(p, 0.7, 0, 1),
        "turn 5": lambda p: p.rotate(5, Image.Resampling.BICUBIC),
        "turn -5": lambda p: p.rotate(-5, Image.Resampling.BICUBIC),
        "light 0.8": lambda p: ImageEnhance.Brightness(p).enhance(0.8),
        "light 1.2": lambda p: ImageEnhance.Brightness(p).enhance(1.2),
        "contrast 0.8": lambda p: ImageEnhance.Contrast(p).enhance(0.8),
        "contrast 1.2": lambda p: ImageEnhance.Contrast(p).enhance(1.2),
        "blur 1": lambda p: p.filter(ImageFilter.GaussianBlur(1)),
        "screenshot": screenshot,
        "screenshot, twice": lambda p: screenshot(screenshot(p)),
    }


def clip(picture: Picture, frames: int) -> list[Tensor]:
    """Return frames of a slow pan over a picture, with a camera's noise, sides even."""
    width, height = (round(side * 0.8) // 2 * 2 for side in picture.size)
    spare_x, spare_y = picture.width - width, picture.height - height
    random = torch.Generator().manual_seed(0)
    pixels, made = tensor(picture), []
    for i in range(frames):
        at = i / max(1, frames - 1)
        left, top = round(spare_x * at), round(spare_y * (0.5 + 0.5 * math.sin(3 * at)))
        part = pixels[top : top + height, left : left + width].float()
        noise = torch.randn(part.shape, generator=random) * 1.5
        made.append((part + noise).round().clamp(0, 255).to(torch.uint8))
    return made


def frames_of(path: Path, count: int) -> list[Tensor]:
    """Return the first frames of a clip, sides even."""
    found = list[Tensor]()
    with av.open(path) as source:
        for frame in source.decode(video=0):
            height, width = frame.height // 2 * 2, frame.width // 2 * 2
            found.append(torch.from_numpy(frame.to_ndarray(format="rgb24")[:height, :width]))
            if len(found) == count:
                break
    return found


def filmed(frames: Sequence[Tensor], crf: int, factor: float = 1.0) -> list[Tensor]:
    """Return frames as x264 gives them back, resized before it."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(25))
        height, width = (round(side * factor) // 2 * 2 for side in frames[0].shape[:2])
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": str(crf), "preset": "medium"}
        for pixels in frames:
            shown = image(pixels).resize((width, height), Image.Resampling.BICUBIC)
            frame = av.VideoFrame.from_ndarray(np.asarray(shown), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    file.seek(0)
    with av.open(file, "r") as source:
        decoded = [frame.to_ndarray(format="rgb24") for frame in source.decode(video=0)]
    return [torch.from_numpy(pixels) for pixels in decoded]


FILMS: dict[str, Callable[[Sequence[Tensor]], list[Tensor]]] = {
    "H.264 CRF 23": lambda f: filmed(f, 23),
    "H.264 CRF 28": lambda f: filmed(f, 28),
    "H.264 CRF 35": lambda f: filmed(f, 35),
    "platform, 2/3 of the size": lambda f: filmed(filmed(f, 23), 28, 2 / 3),
    "platform, harsh": lambda f: filmed(filmed(f, 23), 30, 0.6),
}


def psnr(marked: Tensor, pixels: Tensor) -> float:
    error = float((marked.float() - pixels.float()).square().mean())
    return 10 * math.log10(255**2 / max(error, 1e-4))


def sky(width: int = 1280, height: int = 720) -> Tensor:
    """Return a drawn sky with a camera's faint noise."""
    top, low = (torch.tensor(colour, dtype=torch.float32) for colour in SKY)
    at = torch.linspace(0, 1, height)[:, None, None]
    noise = torch.randn(height, width, 1, generator=torch.Generator().manual_seed(0)) * 0.7
    return (top + (low - top) * at + noise).round().clamp(0, 255).to(torch.uint8)


def timed(scheme: Scheme, times: int, device: torch.device) -> dict[str, float]:
    """Return milliseconds of marking one frame after another: medians by size."""
    found = {}
    for name, (height, width) in {"720p": (720, 1280), "1080p": (1080, 1920)}.items():
        pixels, taken, mark = sky(width, height).to(device), list[float](), scheme.marker(1)
        for _ in range(times + 1):
            began = time.perf_counter()
            mark(pixels)
            if device.type == "cuda":
                torch.cuda.synchronize()
            taken.append(1000 * (time.perf_counter() - began))
        found[name] = round(float(np.median(taken[1:])), 2)
    return found


def measured(
    scheme: Scheme, pictures: Sequence[Picture], given: argparse.Namespace
) -> dict[str, Any]:
    """Return all that is said of one scheme."""
    seeds = np.random.default_rng(0)
    whole: dict[str, list[bool]] = {name: [] for name in changes()}
    whole |= {f"{kind}: {name}": [] for kind in ("pan", "clip") for name in FILMS}
    loss, false, asked, read = [], 0, 0, list[float]()

    def back(frames: Sequence[Tensor]) -> int | None:
        began = time.perf_counter()
        found = scheme.read(frames)
        read.append(1000 * (time.perf_counter() - began))
        return found

    def through_films(kind: str, frames: Sequence[Tensor], number: int) -> None:
        mark = scheme.marker(number, film=True)
        shown = [mark(frame) for frame in frames]
        for name, film in FILMS.items():
            whole[f"{kind}: {name}"].append(back(film(shown)) == number)

    for index, picture in enumerate(pictures):
        number = int(seeds.integers(1 << scheme.bits))
        pixels = tensor(picture)
        shown = scheme.marker(number)(pixels)
        loss.append(psnr(shown, pixels))
        for name, change in changes().items():
            whole[name].append(back([tensor(change(image(shown)))]) == number)
        if index < given.clips:
            through_films("pan", clip(picture, given.frames), number)
        print(f"  {scheme.name}: {index + 1} of {len(pictures)}", end="\r", flush=True)
    for path in given.films:
        through_films("clip", frames_of(path, given.frames), int(seeds.integers(1 << scheme.bits)))
    damage = list(changes().values())
    for index in range(given.unmarked if scheme.rare else 0):
        # other crops of the same pictures, damaged in turn
        across, down, share = seeds.uniform((0, 0, 0.5), 1).tolist()
        part = cropped(pictures[index % len(pictures)], share, across, down)
        false += back([tensor(damage[index % len(damage)](part))]) is not None
        asked += 1
    flat = sky()
    change_of_sky = (scheme.marker(1)(flat).float() - flat.float()).mean(dim=2)
    return {
        "scheme": scheme.name,
        "psnr": round(float(np.mean(loss)), 2),
        "psnr, least": round(min(loss), 2),
        "sky, root mean square": round(float(change_of_sky.square().mean().sqrt()), 3),
        "sky, greatest": float(change_of_sky.abs().max()),
        "whole": {name: round(float(np.mean(all_)), 4) for name, all_ in whole.items() if all_},
        "false": false,
        "unmarked": asked,
        "ms to mark": timed(scheme, given.times, torch.device(given.device)),
        "ms to read, median": round(float(np.median(read)), 1),
        "ms to read, most": round(max(read), 1),
    }


def table(reports: Sequence[dict[str, Any]]) -> str:
    """Return the reports side by side: payloads that came back whole, and the rest."""
    lines = ["damage".ljust(34) + "".join(report["scheme"].rjust(18) for report in reports)]
    told = {
        name: [f"{report['whole'][name]:.1%}" for report in reports] for name in reports[0]["whole"]
    }
    for name in ("psnr", "psnr, least", "sky, root mean square", "sky, greatest"):
        told[name] = [str(report[name]) for report in reports]
    told["false detections"] = [
        f"{report['false']} of {report['unmarked']}" if report["unmarked"] else "-"
        for report in reports
    ]
    for size in reports[0]["ms to mark"]:
        told[f"ms to mark, {size}"] = [str(report["ms to mark"][size]) for report in reports]
    for name in ("ms to read, median", "ms to read, most"):
        told[name] = [str(report[name]) for report in reports]
    lines += [
        name.ljust(34) + "".join(cell.rjust(18) for cell in cells) for name, cells in told.items()
    ]
    return "\n".join(lines)


def show(schemes: Sequence[Scheme], picture: Picture, folder: Path) -> None:
    """Write a picture and a sky as they are and as marked, and what was changed, times 16."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pixels in (("picture", tensor(picture)), ("sky", sky(640, 360))):
        image(pixels).save(folder / f"{name}.png")
        for scheme in schemes:
            shown = scheme.marker(1)(pixels)
            change = ((shown.int() - pixels.int()) * 16 + 128).clamp(0, 255).to(torch.uint8)
            stem = f"{name}-{scheme.name.split(',')[0].lower()}"
            image(shown).save(folder / f"{stem}.png")
            image(change).save(folder / f"{stem}-change.png")


def read_pictures(folders: Sequence[Path], limit: int, side: int) -> list[Picture]:
    """Return pictures of folders, no larger than ``side``."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.jpg"))]
    found = []
    for path in paths[:limit]:
        with Image.open(path) as opened:
            picture = opened.convert("RGB")
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        found.append(picture)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--extractor", type=Path, help="another than the one that ships")
    parser.add_argument(
        "--schemes",
        nargs="+",
        choices=NAMES,
        default=NAMES,
        help="which to measure: RivaGAN is slow",
    )
    parser.add_argument("--pictures", type=Path, nargs="+", default=[PORTRAITS])
    parser.add_argument("--limit", type=int, default=100, help="pictures")
    parser.add_argument("--side", type=int, default=1024, help="greatest side of a picture")
    parser.add_argument("--clips", type=int, default=6, help="pictures of which clips are made")
    parser.add_argument("--films", type=Path, nargs="*", default=[], help="clips, as they are")
    parser.add_argument("--frames", type=int, default=24, help="frames of a clip")
    parser.add_argument("--unmarked", type=int, default=1000, help="pictures without a mark")
    parser.add_argument("--times", type=int, default=10, help="runs of which times are medians")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="a few pictures, to see that it works")
    parser.add_argument("--show", type=Path, metavar="DIR", help="write pictures to look at")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    if given.quick:
        given.limit, given.side, given.clips, given.frames = 1, 320, 1, 2
        given.unmarked, given.times = 1, 1
    torch.set_num_threads(given.threads)
    pictures = read_pictures(given.pictures, given.limit, given.side)
    schemes = list[Scheme]()
    if "mien" in given.schemes:
        schemes.append(ours(given.extractor, torch.device(given.device), given.threads))
    if "dwt-dct" in given.schemes:
        schemes.append(dwt_dct())
    if "rivagan" in given.schemes:
        other = rivagan()
        if other is None:
            print("RivaGAN: the package invisible-watermark is not installed")
        else:
            schemes.append(other)
    if given.show:
        show(schemes, pictures[0], given.show)
    reports = [measured(scheme, pictures, given) for scheme in schemes]
    print(f"{len(pictures)} pictures, {given.clips} clips; payloads that came back whole")
    print(table(reports))
    if given.json:
        given.json.write_text(json.dumps(reports, indent=2) + "\n")


if __name__ == "__main__":
    main()
