"""Make a group picture of three of the bundled portraits: Ada, Ben and Femi, from left to right.

python examples/group.py [OUT]
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

PORTRAITS = Path(__file__).parent / "portraits"
HEIGHTS = {"ada": 420, "ben": 560, "femi": 480}
"""Ben is nearest: his face is the largest."""


def main(out: Path) -> None:
    group = Image.new("RGB", (sum(HEIGHTS.values()), max(HEIGHTS.values())), (120, 130, 140))
    left = 0
    for name, side in HEIGHTS.items():
        with Image.open(PORTRAITS / f"{name}.jpg") as portrait:
            tile = portrait.resize((side, side), Image.Resampling.LANCZOS)
        group.paste(tile, (left, group.height - side))
        left += side
    group.save(out, quality=90)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "group.jpg"))
