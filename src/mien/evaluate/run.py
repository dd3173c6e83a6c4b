"""The run: every pair is made, read and measured, and so are its controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from mien.errors import BadOutput, FaceError, MienError, PictureError
from mien.evaluate import measures as measuring
from mien.evaluate.batch import Batch, Tally
from mien.evaluate.distribution import kid
from mien.evaluate.groups import by_group, groups_of_pair
from mien.evaluate.intervals import Interval, bootstrap
from mien.evaluate.judges import Judges
from mien.evaluate.looks import Look, thumbnail
from mien.evaluate.people import Portrait
from mien.evaluate.pixels import SIZE, Scenes, cut_each
from mien.evaluate.protocol import Pair, Plan
from mien.evaluate.reading import Reading, read
from mien.evaluate.report import Report, Row
from mien.evaluate.variants import Subject, check_size, paste_source

CHUNK = 8
"""Pairs worked on at a time: their pictures are in memory together."""


def measure_pairs(
    subject: Subject,
    people: Sequence[Portrait],
    plan: Plan,
    judges: Judges,
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return the scores of ``subject`` on the pairs of ``plan``, and of the controls.

    Pairs of which nothing can be made are left out and named in the report; see
    :mod:`mien.evaluate.people` and :mod:`mien.evaluate.protocol` for how people are read and pairs
    are chosen. ``seed`` is that of the intervals. Raises ConsentMissing, and if there is no
    result at all, why there is none of the first pair.
    """
    run = _Run(subject, people, plan, judges)
    for first in range(0, len(plan.pairs), CHUNK):
        progress(f"Evaluating pairs: {first} of {len(plan.pairs)}")
        run.pairs(plan.pairs[first : first + CHUNK])
    if not run.rows:
        raise run.errors[0]
    if subject.makes:
        targets = list(dict.fromkeys(pair.target for pair in plan.pairs))
        for first in range(0, len(targets), CHUNK):
            progress(f"Putting faces on themselves: {first} of {len(targets)}")
            run.itself([Pair(i, i) for i in targets[first : first + CHUNK]])
    progress("Adding up")
    return run.report(seed)


class _Run:
    def __init__(
        self, subject: Subject, people: Sequence[Portrait], plan: Plan, judges: Judges
    ) -> None:
        self.subject, self.people, self.plan, self.judges = subject, people, plan, judges
        self.gallery = {
            judge.name: functional.normalize(
                torch.cat([people[i].reading.embeddings[judge.name] for i in plan.gallery])
            )
            for judge in judges.identity
        }
        self.place = {people[i].person: n for n, i in enumerate(plan.gallery)}
        self.tallies: dict[str, Tally] = {}
        self.rows: list[tuple[Pair, Look]] = []
        self.failures: list[tuple[str, str, str]] = []
        self.errors: list[MienError] = []

    def pairs(self, pairs: Sequence[Pair]) -> None:
        """Make and measure pairs, and the controls of each."""
        batch = self._make(pairs)
        if not batch.pairs:
            return
        frames = [source.pixels() for source in batch.sources]
        pasted = [
            paste_source(frame, source.faces, under, target.faces)
            for frame, source, under, target in zip(
                frames, batch.sources, batch.before, batch.targets, strict=True
            )
        ]
        scene = batch.scene()
        self._measure("subject", batch, scene)
        self._measure("untouched", replace(batch, after=batch.before), scene)
        self._measure("pasted", replace(batch, after=pasted), scene)
        for i, pair in enumerate(batch.pairs):
            face = batch.targets[i].faces
            look = Look(
                thumbnail(frames[i], batch.sources[i].faces),
                *(thumbnail(one[i], face) for one in (batch.before, batch.after, pasted)),
            )
            self.rows.append((pair, look))

    def itself(self, pairs: Sequence[Pair]) -> None:
        """Put faces on themselves and measure what comes out."""
        batch = self._make(pairs)
        if batch.pairs:
            self._measure("itself", batch, batch.scene())

    def _make(self, pairs: Sequence[Pair]) -> Batch:
        batch = Batch([], [], [], [], [])
        for pair in pairs:
            source, target = self.people[pair.source], self.people[pair.target]
            try:
                before = target.pixels()
                after = check_size(self.subject(source, target, pair), before, target.name)
            except (FaceError, PictureError, BadOutput) as error:
                self.failures.append((source.name, target.name, str(error)))
                self.errors.append(error)
                continue
            batch.pairs.append(pair)
            batch.sources.append(source)
            batch.targets.append(target)
            batch.before.append(before)
            batch.after.append(after)
        return batch

    def _measure(self, variant: str, batch: Batch, scene: Scenes) -> None:
        source = Reading.join([one.reading for one in batch.sources])
        target = Reading.join([one.reading for one in batch.targets])
        now = target
        if batch.after is not batch.before:
            now = read(self.judges, batch.after, target.points, before=target)
        crops = scene.crops
        if now is not target:
            crops = cut_each(batch.after, scene.matrices, SIZE)
        names = [one.person for one in batch.sources]
        strangers = [a != b.person for a, b in zip(names, batch.targets, strict=True)]
        scores = {
            **measuring.identity_scores(
                self.judges,
                now,
                source,
                target,
                self.gallery,
                torch.tensor([self.place[name] for name in names]),
                torch.tensor(strangers),
            ),
            **measuring.face_scores(now, target),
            **measuring.pixel_scores(crops, scene),
            **measuring.outside_scores(batch.after, batch.before, scene),
        }
        pairs = [(a, b.person) for a, b in zip(names, batch.targets, strict=True)]
        self.tallies.setdefault(variant, Tally()).add(scores, now, pairs)

    def report(self, seed: int) -> Report:
        """Return what was found."""
        rows = measuring.measures(self.judges)
        geometric = frozenset(row.key for row in rows if row.geometric)
        tables = {variant: tally.table() for variant, tally in self.tallies.items()}
        scores = {
            variant: bootstrap(
                table, clusters=self._sources(variant), geometric=geometric, seed=seed
            )
            | self._kids(variant, seed)
            for variant, table in tables.items()
        }
        table = tables.get("subject", {})
        groups = [
            groups_of_pair(self.people[pair.source], self.people[pair.target])
            for pair, _ in self.rows
        ]
        return Report(
            subject=self.subject.account(),
            name=self.subject.name,
            protocol=self.plan.protocol,
            seed=seed,
            people=len(self.people),
            gallery=len(self.plan.gallery),
            judges=self.judges.account(),
            measures=(*rows, *(self._kid_row(judge.name) for judge in self.judges.identity)),
            scores=scores,
            groups=by_group(
                groups, table, clusters=self._sources("subject"), geometric=geometric, seed=seed
            ),
            rows=tuple(
                Row(
                    self.people[pair.source].name,
                    self.people[pair.target].name,
                    groups[i],
                    {key: float(value[i]) for key, value in table.items()},
                    look,
                )
                for i, (pair, look) in enumerate(self.rows)
            ),
            controls={
                variant: {key: value.tolist() for key, value in one.items()}
                for variant, one in tables.items()
                if variant != "subject"
            },
            failures=tuple(self.failures),
            consents=tuple(self.subject.consents()),
        )

    def _sources(self, variant: str) -> Tensor:
        """Return the numbers of the sources of a variant's pairs: of what they have in common."""
        tally = self.tallies.get(variant, Tally())
        return torch.tensor([self.place[source] for source, _ in tally.people])

    def _kids(self, variant: str, seed: int) -> dict[str, Interval]:
        """Return the distance of a variant's faces from those of all people, by judge."""
        tally = self.tallies[variant]
        who = torch.tensor([[self.place[a], self.place[b]] for a, b in tally.people])
        found = {}
        for judge in self.judges.identity:
            one = kid(
                torch.cat(tally.embeddings[judge.name]),
                self.gallery[judge.name],
                who=who,
                reference_who=torch.arange(len(self.plan.gallery))[:, None],
                clusters=self._sources(variant),
                seed=seed,
            )
            found[f"kid.{judge.name}"] = Interval(
                one.mean * 1000, one.low * 1000, one.high * 1000, one.count
            )
        return found

    @staticmethod
    def _kid_row(name: str) -> measuring.Measure:
        return replace(measuring.KID, key=f"kid.{name}", title=f"{measuring.KID.title}, {name}")
