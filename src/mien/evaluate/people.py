"""The people of an evaluation: their pictures, their faces, and the groups they belong to."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from mien.errors import InvalidOption
from mien.evaluate.judges import Judges
from mien.evaluate.reading import Reading, read
from mien.evaluate.topology import CHEEKS
from mien.media import read_picture
from mien.pipeline import FaceFinder
from mien.types import Faces

EXPRESSIONS = re.compile(r"(?P<person>.+)_(?P<expression>neutral|smiling)$")
"""Two pictures of one person, by their names."""

SEX = re.compile(r"(?:^|[_\-. ])(female|male)(?:$|[_\-. ])")

TONES = ((41.0, "light"), (10.0, "medium"), (-math.inf, "dark"))
"""Lower bounds of the individual typology angle in degrees: very light and light, intermediate and
tan, brown and dark (Chardon et al., 1991; Del Bino et al., 2006)."""

AGES = ((55.0, "55 and over"), (35.0, "35 to 54"), (-math.inf, "under 35"))
"""Lower bounds of the age groups, in years."""

CHEEK = 0.10
"""Side of the patch of cheek that is looked at, by the distance of the eyes."""

CHUNK = 16


@dataclass(frozen=True, slots=True, eq=False)
class Portrait:
    """One picture of a person, and what is known of it."""

    name: str
    """The file's name without its suffix."""

    path: Path
    person: str
    """Who it shows: the name, but for the expression at its end."""

    expression: str | None
    """'neutral' or 'smiling' if the name says so."""

    faces: Faces
    """The largest face, as mien finds it: one row."""

    reading: Reading
    """What the judges say of it: one row."""

    groups: Mapping[str, str]
    """Group by kind, such as 'sex': 'female'; for the scores by group."""

    def pixels(self) -> Tensor:
        """Return the picture, uint8 (H, W, 3) in sRGB; it is read anew, to save memory."""
        return read_picture(self.path).frame.view


def read_people(
    paths: Sequence[Path],
    finder: FaceFinder,
    judges: Judges,
    *,
    labels: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[list[Portrait], list[Path]]:
    """Return portraits of the largest face in each picture, and the pictures without a face.

    ``labels`` are groups by the file's name, with or without suffix; see ``read_labels``.
    """
    people: list[Portrait] = []
    faceless = []
    for first in range(0, len(paths), CHUNK):
        progress(f"Reading people: {first} of {len(paths)}")
        frames, faces, kept = [], [], []
        for path in paths[first : first + CHUNK]:
            view = read_picture(path).frame.view
            found = finder(view, largest_only=True)[:1]
            if not len(found):
                faceless.append(path)
                continue
            frames.append(view)
            faces.append(found)
            kept.append(path)
        if not kept:
            continue
        points = torch.cat([each.points for each in faces])
        reading = read(judges, frames, points)
        ages = None if judges.age is None else judges.age(frames, points).tolist()
        for i, path in enumerate(kept):
            tone = typology_angle(frames[i], faces[i])
            known = labels.get(path.name, labels.get(path.stem, {}))
            groups = groups_of(path.stem, tone, None if ages is None else ages[i]) | dict(known)
            match = EXPRESSIONS.match(path.stem)
            people.append(
                Portrait(
                    name=path.stem,
                    path=path,
                    person=match["person"] if match else path.stem,
                    expression=match["expression"] if match else None,
                    faces=faces[i],
                    reading=reading[i : i + 1],
                    groups=groups,
                )
            )
    return people, faceless


def groups_of(name: str, angle: float, age: float | None) -> dict[str, str]:
    """Return the groups that a picture's name, skin (typology angle) and age put it in."""
    groups = {}
    if math.isfinite(angle):
        groups["tone"] = next(tone for low, tone in TONES if angle >= low)
    sex = SEX.search(name.lower())
    if sex:
        groups["sex"] = sex[1]
    if age is not None:
        groups["age"] = next(group for low, group in AGES if age >= low)
    return groups


def typology_angle(frame: Tensor, faces: Faces) -> float:
    """Return the individual typology angle of the cheeks, in degrees: the greater, the lighter.

    ITA = arctan((L* - 50) / b*) of the median colour of both cheeks (Chardon et al., "Skin colour
    typology and suntanning pathways", 1991). It sees the picture, light and all, not the skin.
    """
    assert faces.mesh is not None  # the finder places it
    side = CHEEK * float((faces.points[0, 1] - faces.points[0, 0]).norm()) / 2
    patches = []
    for point in CHEEKS:
        x, y = faces.mesh[0, point, :2].tolist()
        rows = slice(max(0, round(y - side)), max(0, round(y + side)) + 1)
        columns = slice(max(0, round(x - side)), max(0, round(x + side)) + 1)
        patches.append(frame[rows, columns].reshape(-1, 3))
    pixels = torch.cat(patches)
    if not len(pixels):
        return math.nan
    lightness, _, b = cielab(pixels.float().median(dim=0).values / 255)
    return math.degrees(math.atan2(lightness - 50, b))


def cielab(rgb: Tensor) -> tuple[float, float, float]:
    """Return CIE 1976 L*, a*, b* of one sRGB colour (3,) in [0, 1], under its own white, D65."""
    linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4).double()
    to_xyz = linear.new_tensor(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    ratios = (to_xyz @ linear) / to_xyz.sum(dim=1)
    low = (6 / 29) ** 3
    f = torch.where(ratios > low, ratios.clamp_min(0) ** (1 / 3), ratios * 841 / 108 + 4 / 29)
    x, y, z = f.tolist()
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def read_labels(path: Path) -> dict[str, dict[str, str]]:
    """Return the groups in a CSV file: a column ``name``, and one for each kind of group.

    Empty cells say nothing. Raises InvalidOption.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidOption("labels", str(path), f"a CSV file ({error})") from None
    if not rows or "name" not in rows[0]:
        raise InvalidOption("labels", str(path), "a CSV file with a column 'name'")
    return {
        row["name"]: {
            k: v for k, v in row.items() if k and k != "name" and isinstance(v, str) and v
        }
        for row in rows
    }
