"""Refusing who may be a minor: by a stand-in for the age network, that says what it is told."""

from __future__ import annotations

import json

import pytest
import torch
from conftest import CONSENT, StandIn

from mien.errors import LooksYoung
from mien.loader import AGE
from mien.models import Catalogue
from mien.safety import Ledger
from mien.stages.age import Ages


@pytest.fixture
def looking(swapper, monkeypatch):
    """Return what makes all faces look so many years old."""

    def look(*years):
        said = list(years)

        def chances(inputs):
            made = torch.zeros(len(next(iter(inputs.values()))), 100)
            for row in made:
                row[said[0]] = 1
                if len(said) > 1:
                    said.pop(0)
            return {"age_pred/Softmax:0": made}

        ages = Ages(StandIn(chances), Catalogue().card(AGE).contract)
        monkeypatch.setattr(swapper._guard, "ages", lambda: ages)
        monkeypatch.setattr(swapper._guard, "_seen", {})  # nobody was looked at before

    return look


def grant(swapper, path, **options):
    return swapper.grant(path, CONSENT, declares="no-real-person", **options)


def test_the_bundled_portraits_look_like_adults(swapper, people):
    for path in people.values():
        frame = swapper._read(path)[0].frame
        years = swapper._guard.years(frame, swapper.faces(path)[0])
        assert 23 < years[0] < 75


def test_a_source_that_looks_young_is_refused_and_not_recorded(swapper, people, looking):
    looking(17)
    before = len(swapper.ledger.all())
    with pytest.raises(LooksYoung, match=r"the source.*17 years.*below 18.*a picture of an adult"):
        swapper.identity(people["dev"], consent=CONSENT)
    assert len(swapper.ledger.all()) == before


def test_a_target_that_looks_young_is_refused(swapper, people, looking, painted):
    looking(40)
    who = swapper.identity(people["dev"], consent=CONSENT)
    looking(22)
    with pytest.raises(LooksYoung, match=r"a face in the picture.*below 23.*--adult"):
        swapper.swap(people["ada"], who)
    last = sorted(swapper.ledger.audit.folder.glob("*.jsonl"))[-1].read_text().splitlines()[-1]
    assert (json.loads(last)["event"], json.loads(last)["reason"]) == ("refused", "LooksYoung")
    assert json.loads(last)["records"] == [who.consent]


def test_a_record_clears_an_adult_and_never_a_clear_minor(
    swapper, people, looking, painted, monkeypatch, tmp_path
):
    monkeypatch.setattr(swapper, "ledger", Ledger(folder=tmp_path))
    looking(20)
    grant(swapper, people["dev"])
    with pytest.raises(LooksYoung):
        swapper.identity(people["dev"])
    record = grant(swapper, people["dev"], adult=True)
    assert record.adult
    who = swapper.identity(people["dev"])
    with pytest.raises(LooksYoung):  # the target's record is missing
        swapper.swap(people["ada"], who)
    grant(swapper, people["ada"], adult=True)
    assert swapper.swap(people["ada"], who).swapped.chosen
    looking(17)
    with pytest.raises(LooksYoung):
        swapper.swap(people["ada"], who)
    with pytest.raises(LooksYoung):
        swapper.identity(people["dev"])
    swapper.ledger.revoke(record.id)
    looking(20)
    with pytest.raises(LooksYoung):
        swapper.identity(people["dev"])


def test_records_without_the_field_are_those_of_before(tmp_path):
    ledger = Ledger(folder=tmp_path)
    plain = ledger.record("mine", ["a"], picture="p")
    assert "adult" not in ledger.export([plain.id])["records"][0]["consent"]["body"]
    assert not ledger.adult(["a"])
    stated = ledger.record("mine", ["a"], picture="p", adult=True)
    assert (stated.id != plain.id, ledger.get(stated.id).adult) == (True, True)
    assert ledger.adult(["a"])
    assert not ledger.adult(["a", "b"])


@pytest.mark.parametrize("years", [(17,), (30, 12)])
def test_a_clip_is_refused_also_by_a_later_look(
    swapper, clips, people, looking, tmp_path, painted, years
):
    looking(40)
    who = swapper.identity(people["dev"], consent=CONSENT)
    looking(*years)
    with pytest.raises(LooksYoung, match=r"a face at \d"):
        swapper.swap_video(clips["long"], who, output=tmp_path / "o.mkv")
    assert list(tmp_path.iterdir()) == []
