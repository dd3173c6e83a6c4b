"""A whole evaluation: people are read, pairs chosen, made and measured, and clips looked at."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mien.errors import InvalidOption
from mien.evaluate.clips import clip_scores, read_clip
from mien.evaluate.judges import Judges
from mien.evaluate.people import Portrait, read_people
from mien.evaluate.protocol import Protocol, guess, listed, plan
from mien.evaluate.report import Report
from mien.evaluate.run import measure_pairs
from mien.evaluate.variants import Model, Subject
from mien.pipeline import FaceFinder

QUICK_PEOPLE, QUICK_PAIRS = 12, 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be evaluated, on whom."""

    pictures: Sequence[Path]
    """The people: one picture each, or NAME_neutral and NAME_smiling of each."""

    protocol: Protocol | None = None
    """None leaves it to the pictures' names."""

    pairs: int = 100
    """How many, about; see ``plan``."""

    named: Sequence[tuple[str, str, Path | None]] | None = None
    """The pairs themselves: source, target, and the result if it is there already."""

    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Groups by name of picture and kind of group; see ``read_labels``."""

    clips: Sequence[Path] = ()
    """Folders of frames, or animations, on which the first pair's source is put."""

    quick: bool = False
    """Only a few pairs of a few people, unless they are named."""

    seed: int = 0


def evaluate(
    subject: Subject,
    task: Task,
    finder: FaceFinder,
    judges: Judges,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return the scores of ``subject`` and of the controls.

    ``finder`` finds the people's faces. Raises InvalidOption, PictureUnreadable, and of a network
    ConsentMissing; pairs of which it can make nothing are in the report's failures.
    """
    began = time.monotonic()
    pictures, count = list(task.pictures), task.pairs
    if task.quick and task.named is None:
        chosen = random.Random(task.seed).sample(pictures, min(QUICK_PEOPLE, len(pictures)))
        pictures, count = sorted(chosen), min(count, QUICK_PAIRS)
    people, faceless = read_people(pictures, finder, judges, labels=task.labels, progress=progress)
    if task.named is not None:
        pairs = listed(people, task.named)
    else:
        pairs = plan(people, task.protocol or guess(people), count, seed=task.seed)
    report = measure_pairs(subject, people, pairs, judges, seed=task.seed, progress=progress)
    clips = _clips(subject, people[pairs.pairs[0].source], task, judges, progress)
    return replace(
        report,
        faceless=tuple(path.name for path in faceless),
        clips=clips,
        seconds=time.monotonic() - began,
    )


def _clips(
    subject: Subject,
    source: Portrait,
    task: Task,
    judges: Judges,
    progress: Callable[[str], None],
) -> dict[str, dict[str, float]]:
    """Return the scores of each clip with the face of ``source`` in it."""
    if not task.clips:
        return {}
    if not isinstance(subject, Model):
        raise InvalidOption("clip", str(task.clips[0]), "no clip, as no network is evaluated")
    found = {}
    for path in task.clips:
        progress(f"Swapping {path.name}")
        found[path.name] = clip_scores(subject, source, read_clip(path), judges, str(path))
    return found
