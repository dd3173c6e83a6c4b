"""How well watermarks last, are hidden, and are not found where there are none.

    python benchmarks/watermark.py [--networks DIR] [--pictures DIR ...] [--quick] [--json FILE]

``DIR`` of networks holds ``watermark_encoder.onnx`` and ``watermark_decoder.onnx``, as
``mien.train.watermark`` writes them. Beside them stand DWT-DCT with the same code and PSNR, and
RivaGAN (32 bits, no code) if the package ``invisible-watermark`` is installed. All damage is done
by the real thing: Pillow's codecs and filters, and x264.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageEnhance, ImageFilter
from torch import Tensor

from mien.nets.frozen import FrozenNet, Graph
from mien.safety.watermark import code
from mien.safety.watermark.dwtdct import SIZE, DwtDct
from mien.safety.watermark.laying import Decode, Encode, laid, shrunk, voted

PORTRAITS = Path(__file__).parent.parent / "examples" / "portraits"
FILES = ("watermark_encoder.onnx", "watermark_decoder.onnx")
SKY = ((96, 148, 214), (186, 211, 236))
"""Colours of a drawn sky, above and below."""

CPU = torch.device("cpu")

Picture = Image.Image
Change = Callable[[Picture], Picture]


@dataclass(frozen=True, eq=False)
class Scheme:
    """A watermark: what lays it on pictures, uint8 (H, W, 3), and what reads logits (B + 1,)."""

    name: str
    mark: Callable[[Tensor, int], Tensor]
    read: Callable[[Tensor], Tensor]
    bits: Callable[[int], npt.NDArray[np.uint8]] = code.write
    coded: bool = True
    device: torch.device = CPU


@dataclass(slots=True)
class Row:
    """What came back of marks after one kind of damage."""

    bits: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)

    def add(self, scheme: Scheme, logits: Tensor, number: int) -> None:
        """Count what was read of one picture or clip."""
        true = scheme.bits(number)
        said = logits[: len(true)].numpy()
        self.bits.append(float(((said > 0) == (true > 0)).mean()))
        self.whole.append(believed(scheme, logits) == number if scheme.coded else all_right(self))

    def means(self) -> dict[str, float]:
        """Return shares: of right raw bits, and of payloads that came back whole."""
        return {
            "bits": round(float(np.mean(self.bits)), 4),
            "whole": round(float(np.mean(self.whole)), 4),
        }


def all_right(row: Row) -> bool:
    return row.bits[-1] == 1


def believed(scheme: Scheme, logits: Tensor) -> int | None:
    """Return the identifier that is believed, if any."""
    if not scheme.coded:
        return None
    found = code.read(logits[: code.BITS].double().numpy())
    return None if found is None else found.identifier


def networks(folder: Path, device: torch.device, threads: int) -> Scheme:
    """Return the trained networks: by ONNX Runtime on a CPU, by PyTorch on a GPU."""
    encode: Encode
    decode: Decode
    if device.type == "cuda":
        graphs = [Graph.read(folder / name) for name in FILES]
        nets = [FrozenNet(graph).eval().to(device) for graph in graphs]
        size = graphs[0].shapes[graphs[0].inputs[0]][2] or 256

        def encode(picture: Tensor, bits: Tensor) -> Tensor:
            residual: Tensor = nets[0](picture, bits)[0]
            return residual

        def decode(picture: Tensor) -> Tensor:
            logits: Tensor = nets[1](picture)[0]
            return logits

    else:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        sessions = [
            onnxruntime.InferenceSession(folder / name, options, ["CPUExecutionProvider"])
            for name in FILES
        ]
        size = int(sessions[0].get_inputs()[0].shape[2])

        def encode(picture: Tensor, bits: Tensor) -> Tensor:
            feed = {"picture": picture.numpy(), "bits": bits.numpy()}
            return torch.from_numpy(sessions[0].run(None, feed)[0])

        def decode(picture: Tensor) -> Tensor:
            return torch.from_numpy(sessions[1].run(None, {"picture": picture.numpy()})[0])

    return called("ours", encode, decode, size, device)


def called(name: str, encode: Encode, decode: Decode, size: int, device: torch.device) -> Scheme:
    """Return a scheme of two networks, or of what is called like them."""

    def mark(pixels: Tensor, number: int) -> Tensor:
        bits = torch.from_numpy(code.write(number)).float()[None] * 2 - 1
        with torch.inference_mode():
            there = pixels.to(device)
            return laid(there, encode(shrunk(there, size), bits.to(device))).to(pixels.device)

    def read(pixels: Tensor) -> Tensor:
        with torch.inference_mode():
            return decode(shrunk(pixels.to(device), size))[0].cpu()

    return Scheme(name, mark, read, device=device)


def rivagan() -> Scheme | None:
    """Return RivaGAN of the package invisible-watermark, or None without it."""
    try:
        package: Any = importlib.import_module("imwatermark")
    except ImportError:
        return None
    package.WatermarkEncoder.loadModel()
    package.WatermarkDecoder.loadModel()

    def bits(number: int) -> npt.NDArray[np.uint8]:
        return np.array([number >> place & 1 for place in range(32)], dtype=np.uint8)

    def mark(pixels: Tensor, number: int) -> Tensor:
        encoder = package.WatermarkEncoder()
        encoder.set_watermark("bits", bits(number).tolist())
        done = encoder.encode(np.ascontiguousarray(pixels.numpy()[..., ::-1]), "rivaGan")
        return torch.from_numpy(np.ascontiguousarray(done[..., ::-1]))

    def read(pixels: Tensor) -> Tensor:
        decoder = package.WatermarkDecoder("bits", 32)
        said = decoder.decode(np.ascontiguousarray(pixels.numpy()[..., ::-1]), "rivaGan")
        return torch.tensor([*(1.0 if bit else -1.0 for bit in said), 20.0])

    return Scheme("RivaGAN, 32 bits", mark, read, bits, coded=False)


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
    "platform": lambda f: filmed(filmed(f, 23), 30, 0.6),
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


def timed(scheme: Scheme, times: int) -> dict[str, float]:
    """Return milliseconds of marking a frame that lies on the scheme's device: median by height."""
    found = {}
    for name, (height, width) in {"720p": (720, 1280), "1080p": (1080, 1920)}.items():
        pixels, taken = sky(width, height).to(scheme.device), []
        for _ in range(times + 1):
            began = time.perf_counter()
            scheme.mark(pixels, 1)
            if scheme.device.type == "cuda":
                torch.cuda.synchronize()
            taken.append(1000 * (time.perf_counter() - began))
        found[name] = round(float(np.median(taken[1:])), 2)
    return found


def measured(
    scheme: Scheme, pictures: Sequence[Picture], given: argparse.Namespace
) -> dict[str, Any]:
    """Return all that is said of one scheme."""
    seeds, rows = np.random.default_rng(0), {name: Row() for name in [*changes(), *FILMS]}
    loss, false, asked = [], 0, 0
    for index, picture in enumerate(pictures):
        number = int(seeds.integers(1 << code.IDENTIFIER))
        pixels = tensor(picture)
        marked = scheme.mark(pixels, number)
        loss.append(psnr(marked, pixels))
        for name, change in changes().items():
            rows[name].add(scheme, scheme.read(tensor(change(image(marked)))), number)
        if index < given.clips:
            shown = [scheme.mark(frame, number) for frame in clip(picture, given.frames)]
            for name, film in FILMS.items():
                votes = voted(scheme.read(frame) for frame in film(shown))
                rows[name].add(scheme, votes, number)
    damage = list(changes().values())
    for index in range(given.unmarked if scheme.coded else 0):
        # other crops of the same pictures, damaged in turn
        across, down, share = seeds.uniform((0, 0, 0.5), 1).tolist()
        part = cropped(pictures[index % len(pictures)], share, across, down)
        logits = scheme.read(tensor(damage[index % len(damage)](part)))
        false += believed(scheme, logits) is not None
        asked += 1
    flat = sky()
    change_of_sky = (scheme.mark(flat, 1).float() - flat.float()).mean(dim=2)
    return {
        "scheme": scheme.name,
        "psnr": round(float(np.mean(loss)), 2),
        "psnr, least": round(min(loss), 2),
        "sky, root mean square": round(float(change_of_sky.square().mean().sqrt()), 3),
        "sky, greatest": float(change_of_sky.abs().max()),
        "rows": {name: row.means() for name, row in rows.items() if row.bits},
        "false": false,
        "unmarked": asked,
        "ms": timed(scheme, given.times),
    }


def table(reports: Sequence[dict[str, Any]]) -> str:
    """Return the reports side by side: payloads that came back whole, and right bits."""
    lines = ["damage".ljust(22) + "".join(report["scheme"].rjust(24) for report in reports)]
    for name in reports[0]["rows"]:
        cells = [report["rows"][name] for report in reports]
        shares = [f"{cell['whole']:.1%} ({cell['bits']:.1%} of bits)" for cell in cells]
        lines.append(name.ljust(22) + "".join(share.rjust(24) for share in shares))
    told = {
        name: [str(report[name]) for report in reports]
        for name in ("psnr", "psnr, least", "sky, root mean square", "sky, greatest")
    }
    told["false detections"] = [
        f"{report['false']} of {report['unmarked']}" if report["unmarked"] else "-"
        for report in reports
    ]
    for size in reports[0]["ms"]:
        told[f"ms, {size}"] = [str(report["ms"][size]) for report in reports]
    lines += [
        name.ljust(22) + "".join(cell.rjust(24) for cell in cells) for name, cells in told.items()
    ]
    return "\n".join(lines)


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
    parser.add_argument("--networks", type=Path)
    parser.add_argument("--pictures", type=Path, nargs="+", default=[PORTRAITS])
    parser.add_argument("--limit", type=int, default=100, help="pictures")
    parser.add_argument("--side", type=int, default=1024, help="greatest side of a picture")
    parser.add_argument("--clips", type=int, default=6, help="pictures of which clips are made")
    parser.add_argument("--frames", type=int, default=24, help="frames of a clip")
    parser.add_argument("--unmarked", type=int, default=1000, help="pictures without a mark")
    parser.add_argument("--times", type=int, default=10, help="runs of which times are medians")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="a few pictures, to see that it works")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    if given.quick:
        given.limit, given.side, given.clips, given.frames = 2, 256, 1, 4
        given.unmarked, given.times = 4, 1
    torch.set_num_threads(given.threads)
    pictures = read_pictures(given.pictures, given.limit, given.side)
    reference = DwtDct()
    schemes = [called("DWT-DCT", reference.encode, reference.decode, SIZE, CPU)]
    if given.networks:
        schemes.insert(0, networks(given.networks, torch.device(given.device), given.threads))
    other = rivagan()
    if other is None:
        print("RivaGAN: the package invisible-watermark is not installed")
    else:
        schemes.append(other)
    reports = [measured(scheme, pictures, given) for scheme in schemes]
    print(f"{len(pictures)} pictures; payloads that came back whole (right raw bits)")
    print(table(reports))
    if given.json:
        given.json.write_text(json.dumps(reports, indent=2) + "\n")


if __name__ == "__main__":
    main()
