"""Make a clip: a camera that moves over a picture, by default over the group of examples/group.py.

python examples/clip.py [OUT] [PICTURE]
"""

from __future__ import annotations

import sys
from math import cos, pi
from pathlib import Path

import av
from PIL import Image

SIZE, RATE, FRAMES = (480, 270), 24, 24
MARGIN = 0.15
"""How much of the picture is out of view, by its width."""


def main(out: Path, picture: Path) -> None:
    width, height = SIZE
    with Image.open(picture) as opened, av.open(str(out), "w") as output:
        image = opened.convert("RGB")
        stream = output.add_stream("libx264", rate=RATE, options={"crf": "16"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        seen = image.width * (1 - MARGIN)
        for number in range(FRAMES):
            left = (image.width - seen) * (1 - cos(2 * pi * number / FRAMES)) / 2
            top = (image.height - seen * height / width) / 2
            step = seen / width
            view = image.transform(
                SIZE,
                Image.Transform.AFFINE,
                (step, 0, left, 0, step, top),
                Image.Resampling.BICUBIC,
            )
            output.mux(stream.encode(av.VideoFrame.from_image(view)))
        output.mux(stream.encode(None))


if __name__ == "__main__":
    given = sys.argv[1:] + ["clip.mp4", "group.jpg"][len(sys.argv) - 1 :]
    main(Path(given[0]), Path(given[1]))
