"""A whole evaluation on bundled portraits: the controls have the values they must have."""

from __future__ import annotations

import base64
import io
import json
import math
import re
from dataclasses import replace
from functools import partial
from xml.etree import ElementTree

import pytest
import torch
from conftest import CONSENT
from PIL import Image

from mien.errors import ConsentMissing, InvalidOption, NoFace, PictureUnreadable
from mien.evaluate import Judges, Task, evaluate, quick_scores
from mien.evaluate.clips import clip_scores
from mien.evaluate.measures import Measure
from mien.evaluate.moving import Place, actor, play, times
from mien.evaluate.page import cost, page, ranked
from mien.evaluate.people import read_people
from mien.evaluate.protocol import Pair
from mien.evaluate.quick import read_crops
from mien.evaluate.report import shown
from mien.evaluate.variants import Model, Results, paste_source
from mien.media import read_picture
from mien.models import Catalogue
from mien.stages.align import align

NAMES = ("ada", "ben", "mei")
PERFECT = {
    "dlib.cosine": 1.0,
    "dlib.top1": 100.0,
    "dlib.accepted": 100.0,
    "pose": 0.0,
    "turn": 0.0,
    "expression": 0.0,
    "gaze": 0.0,
    "sharpness": 1.0,
    "colour": 0.0,
    "seam": 1.0,
    "outside": 0.0,
}


@pytest.fixture(scope="module")
def judges():
    return Judges.load(threads=1)


@pytest.fixture(scope="module")
def folk(people):
    """Return the paths of three small portraits by name."""
    return {name: people[name] for name in NAMES}


@pytest.fixture(scope="module")
def portraits_of(folk, find, judges):
    return dict(zip(NAMES, read_people(list(folk.values()), find, judges)[0], strict=True))


class Keep:
    """A swapper that leaves the target as it is, but for what ``spoil`` does to it."""

    name, makes = "keep", True

    def __init__(self, spoil=lambda frame: frame):
        self.spoil = spoil

    def account(self):
        return {"model": self.name}

    def consents(self):
        return ("c-0",)

    def __call__(self, source, target, pair):
        return self.spoil(target.pixels())


@pytest.fixture(scope="module")
def kept(folk, find, judges):
    task = Task(pictures=list(folk.values()), pairs=4, labels={"ben": {"sex": "male"}})
    return evaluate(Keep(), task, find, judges)


def test_an_untouched_target_is_perfect_but_for_identity(kept):
    for variant in ("subject", "untouched"):
        scores = kept.scores[variant]
        assert scores["dlib.target"].mean == pytest.approx(1, abs=1e-5)
        assert scores["dlib.leak"].mean == pytest.approx(1 - scores["dlib.cosine"].mean, abs=1e-4)
        assert scores["dlib.top1"].mean == 0
        assert scores["dlib.accepted"].mean == 0
        assert scores["dlib.cosine"].mean < 0.9
        for key in set(PERFECT) - {"dlib.cosine", "dlib.top1", "dlib.accepted"}:
            assert scores[key].mean == pytest.approx(PERFECT[key], abs=1e-4), key
    strangers = kept.scores["subject"]["dlib.cosine"]
    assert strangers.low <= strangers.mean <= strangers.high


def test_a_face_on_itself_that_is_kept_is_perfect(kept):
    scores = kept.scores["itself"]
    for key, value in PERFECT.items():
        assert scores[key].mean == pytest.approx(value, abs=1e-4), key
    assert math.isnan(scores["dlib.leak"].mean)
    assert scores["kid.dlib"].mean == pytest.approx(0, abs=1e-9)


def test_a_pasted_source_is_the_source_in_the_wrong_pose(kept):
    scores = kept.scores["pasted"]
    assert scores["dlib.top1"].mean == 100
    assert scores["dlib.accepted"].mean == 100
    assert scores["dlib.cosine"].mean > 0.95
    assert scores["dlib.leak"].mean < 0.5 * kept.scores["untouched"]["dlib.leak"].mean
    assert scores["turn"].mean > 1
    assert scores["expression"].mean > 1
    assert scores["outside"].mean == 0


def test_the_pasted_source_is_the_source_where_the_mask_is_one(portraits_of):
    source, target = portraits_of["ben"], portraits_of["ada"]
    under = target.pixels()
    itself = paste_source(under, target.faces, under, target.faces)
    near = (itself.int() - target.pixels().int()).abs().float()
    assert float(near.mean()) < 1  # once through the warps
    pasted = paste_source(source.pixels(), source.faces, under, target.faces)
    far = (pasted.int() - target.pixels().int()).abs().float()
    assert float(far.mean()) > 3 * float(near.mean())
    left, top = (target.faces.boxes[0, :2] - 30).int().tolist()
    assert torch.equal(pasted[:top], target.pixels()[:top])
    assert torch.equal(pasted[:, :left], target.pixels()[:, :left])


def test_what_is_wrong_with_a_picture_shows(folk, find, judges):
    def spoil(frame):
        frame = frame.clone()
        frame[:3, :5] ^= 255
        return frame

    task = Task(pictures=list(folk.values()), pairs=2)
    scores = evaluate(Keep(spoil), task, find, judges).scores["subject"]
    assert scores["outside"].mean == 15


def test_a_result_of_another_size_is_a_failure_and_the_others_count(folk, find, judges):
    shapes = []

    def spoil(frame):
        shapes.append(frame.shape)
        return frame[:-1] if len(shapes) == 1 else frame

    task = Task(pictures=list(folk.values()), pairs=2)
    report = evaluate(Keep(spoil), task, find, judges)
    assert len(report.rows) == 1
    (failure,) = report.failures
    assert "256 x 255" in failure[2]
    with pytest.raises(PictureUnreadable, match="256 x 255"):
        evaluate(Keep(lambda frame: frame[:-1]), task, find, judges)


def test_the_report_is_json_and_a_table(kept):
    report = json.loads(json.dumps(kept.report(), allow_nan=False))
    assert report["protocol"] == "cross"
    assert len(report["pairs"]) == len(kept.rows) == 4
    assert report["measures"]["pose"]["untouched"] == {
        "mean": 0.0, "low": 0.0, "high": 0.0, "count": 4
    }  # fmt: skip
    assert report["consents"] == ["c-0"]
    lines = kept.table().splitlines()
    assert lines[0].split("  ")[0] == "measure"
    (pose,) = (line for line in lines if line.startswith("head pose error"))
    assert re.findall(r"[\d.]+ to [\d.]+", pose) == ["0.00 to 0.00"]
    assert len(lines) == 2 + len(kept.measures)


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere(kept):
    text = page(kept)
    root = ElementTree.fromstring(text.partition("\n")[2])
    sources = [tag.get("src") for tag in root.iter() if tag.tag.endswith("img")]
    assert len(sources) >= 4
    for uri in sources:
        head, _, data = uri.partition(",")
        assert head == "data:image/jpeg;base64"
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            assert image.size == (4 * 176, 176)
            assert b"compositeWithTrainedAlgorithmicMedia" in image.info["xmp"]
            assert b"c-0" in image.info["xmp"]
    links = [value for tag in root.iter() for name, value in tag.items() if name == "href"]
    assert links == []
    outside = re.sub(r'src="data:[^"]*"|xmlns="[^"]*"', "", text)
    assert "http" not in outside
    assert "url(" not in outside
    assert "<script" not in text
    assert "synthetic" in text


def test_names_cannot_break_the_page(kept):
    row = replace(kept.rows[0], source="<b>&\"'", target="</figure>")
    text = page(replace(kept, rows=(row,), name="<i>&", failures=(("<", "&", '"'),)))
    ElementTree.fromstring(text.partition("\n")[2])
    assert "<b>" not in text


def test_pairs_are_ranked_by_all_that_counts(kept):
    good = {"dlib.cosine": 0.9, "pose": 1.0, "sharpness": 1.0}
    rows = [
        replace(kept.rows[0], values=values)
        for values in (
            good | {"dlib.cosine": 0.2, "pose": 9.0, "sharpness": 9.0},
            good,
            good | {"sharpness": 3.0, "pose": math.nan},
        )
    ]
    measures = [m for m in kept.measures if m.key in good]
    assert ranked(rows, measures) == [1, 2, 0]
    ratio = Measure("x", "x", "", "one", geometric=True)
    values = [cost(replace(kept.rows[0], values={"x": v}), ratio) for v in (0.5, 1.0, 2.0)]
    assert values == pytest.approx([math.log(2), 0, math.log(2)])


def test_numbers_are_shown_with_their_digits():
    measure = Measure("x", "x", "", "low", digits=1)
    assert [shown(v, measure) for v in (1.26, None, math.nan, 123456.0)] == [
        "1.3", "-", "-", "1.23e+05"
    ]  # fmt: skip


# Networks and folders


def test_a_network_needs_consent_for_its_sources(folk, find, judges, swapper, unheard):
    task = Task(pictures=list(folk.values()), pairs=1)
    with pytest.raises(ConsentMissing):
        evaluate(Model(swapper, None, Catalogue()), task, find, judges)


def test_a_network_is_scored_and_its_results_again_from_their_files(
    folk, find, judges, swapper, tmp_path, portraits_of
):
    subject = Model(swapper, CONSENT, Catalogue())
    task = Task(pictures=list(folk.values()), pairs=1)
    made = evaluate(subject, task, find, judges)
    (row,) = made.rows
    assert made.scores["subject"]["outside"].mean == 0
    assert made.scores["subject"]["dlib.target"].mean < 0.97
    assert made.consents == tuple(subject.consents()) != ()
    assert 0 < made.scores["itself"]["pose"].mean < 15
    source, target = portraits_of[row.source], portraits_of[row.target]
    pixels = subject(source, target, Pair(0, 0))
    Image.fromarray(pixels.numpy()).save(tmp_path / f"{row.source}__{row.target}.png")
    results = Results(tmp_path)
    again = evaluate(results, replace(task, named=results.listed()), find, judges)
    assert set(again.scores) == {"subject", "untouched", "pasted"}
    for key, value in made.rows[0].values.items():
        assert again.rows[0].values[key] == pytest.approx(value, abs=1e-4, nan_ok=True), key


def test_an_empty_folder_of_results_is_refused(tmp_path):
    with pytest.raises(InvalidOption, match="SOURCE__TARGET"):
        Results(tmp_path).listed()


def test_pictures_without_a_face_are_named(tmp_path, find, judges, folk):
    Image.new("RGB", (64, 64)).save(tmp_path / "nobody.png")
    people, faceless = read_people([tmp_path / "nobody.png", folk["ben"]], find, judges)
    assert [one.name for one in people] == ["ben"]
    assert [path.name for path in faceless] == ["nobody.png"]


# The quick form


@pytest.fixture(scope="module")
def crops(folk, find, swapper):
    frames = [read_picture(path).frame for path in folk.values()]
    contract = swapper._pipeline.swap.contract
    faces = [find(frame.view, largest_only=True)[:1] for frame in frames]
    return torch.cat(
        [align(frame, face, contract).pixels for frame, face in zip(frames, faces, strict=True)]
    )


def test_quick_scores_of_keeping_and_of_replacing(crops, judges):
    embeddings = torch.eye(3)
    reading = read_crops(judges, crops)
    kept = quick_scores(lambda x, e: x, crops, embeddings, judges, reading=reading, pairs=6)
    assert kept["dlib.top1"].mean == 0
    assert kept["dlib.target"].mean == pytest.approx(1, abs=0.01)
    assert kept["expression"].mean == pytest.approx(0, abs=0.2)
    assert kept["pose"].count == 6
    replaced = quick_scores(
        lambda x, e: crops[e.argmax(dim=1)], crops, embeddings, judges, reading=reading, pairs=6
    )
    assert replaced["dlib.top1"].mean == 100
    assert replaced["expression"].mean > 1
    raw = quick_scores(
        lambda x, e: crops[e.argmax(dim=1)], crops, embeddings, judges, pairs=3, blend=False
    )
    assert raw["dlib.cosine"].mean == pytest.approx(1, abs=1e-4)
    assert raw["dlib.leak"].mean == pytest.approx(0, abs=1e-3)


def test_quick_pairs_are_never_of_one_person(crops, judges):
    asked = []

    def swap(targets, embeddings):
        asked.extend(
            zip(targets.mean(dim=(1, 2, 3)).tolist(), embeddings.argmax(dim=1), strict=True)
        )
        return targets

    quick_scores(swap, crops, torch.eye(3), judges, pairs=6)
    assert len(set(asked)) == 6
    means = crops.mean(dim=(1, 2, 3)).tolist()
    assert all(mean != pytest.approx(means[source]) for mean, source in asked)


def test_a_clip_is_as_steady_as_it_is(judges, swapper, portraits_of):
    subject = Model(swapper, CONSENT, Catalogue())
    source, frame = portraits_of["ben"], portraits_of["ada"].pixels()
    for as_clip in (True, False):
        found = clip_scores(subject, source, [frame] * 3, judges, "still", as_clip=as_clip)
        # the mesh of the first frame is found in another way than those after it
        assert max(found["flicker"], found["flicker.pasted"]) < 0.2
        assert found["steadiness.dlib"] == pytest.approx(0, abs=1e-3 if as_clip else 1e-4)
        assert found.keys() == {"flicker", "flicker.pasted", "steadiness.dlib", "frames"}
    dark = (frame * 0.5).to(torch.uint8)
    flashing = clip_scores(subject, source, [frame, dark, frame], judges, "flash")
    assert flashing["flicker"] > 1
    with pytest.raises(NoFace):
        clip_scores(subject, source, [frame * 0] * 3, judges, "black")


def test_a_clip_is_measured_as_it_is_swapped(judges, swapper, portraits_of, monkeypatch):
    subject = Model(swapper, CONSENT, Catalogue())
    face = actor(portraits_of["ada"].pixels(), 220, lambda t: Place(150 + 30 * t, 130))
    frames = [f.pixels for f in play([face], times(0.4, 25), size=(260, 340), noise=3)]
    scores = {
        as_clip: clip_scores(subject, portraits_of["ben"], frames, judges, "c", as_clip=as_clip)
        for as_clip in (True, False)
    }
    assert scores[True].keys() == scores[False].keys()
    # what holds the face still is the same: so is the control
    assert scores[True]["flicker.pasted"] == scores[False]["flicker.pasted"]
    # most of either is the camera's noise, so which is less is for longer clips to say
    assert scores[True]["flicker"] > 0
    assert scores[True]["flicker"] != scores[False]["flicker"]
    # and it is the clip's pipeline, with all its defaults
    monkeypatch.setattr(swapper, "clip", partial(swapper.clip, smooth=False))
    raw = clip_scores(subject, portraits_of["ben"], frames, judges, "c")
    assert raw["flicker"] != scores[True]["flicker"]
