"""Make the README's picture: source, target before, target after.

python examples/before_after.py [OUT]
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

import mien

PORTRAITS = Path(__file__).parent / "portraits"
PAIRS = (("dev", "femi"), ("eva", "dev"), ("dev", "ben"))
SIDE, GAP = 320, 6


def main(out: Path) -> None:
    swapper = mien.Swapper()
    sheet = Image.new("RGB", (3 * SIDE + 2 * GAP, len(PAIRS) * (SIDE + GAP) - GAP), "white")
    for row, (source, target) in enumerate(PAIRS):
        person = swapper.identity(
            PORTRAITS / f"{source}.jpg", consent="Generated portraits: no real person is shown."
        )
        result = swapper.swap(PORTRAITS / f"{target}.jpg", person)
        before = [Image.open(PORTRAITS / f"{name}.jpg") for name in (source, target)]
        for column, picture in enumerate([*before, result.image]):
            tile = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            sheet.paste(tile, (column * (SIDE + GAP), row * (SIDE + GAP)))
    sheet.save(out, quality=88)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "before-after.jpg"))
