"""Who is put on whom: pairs are balanced, repeatable, and never of one person by mistake."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from mien.errors import InvalidOption
from mien.evaluate.groups import by_group, groups_of_pair
from mien.evaluate.people import Portrait, cielab, groups_of, read_labels, typology_angle
from mien.evaluate.protocol import guess, listed, plan, read_list
from mien.evaluate.reading import Reading
from mien.types import Faces


def portrait(name, person=None, expression=None, yaw=0.0, **groups):
    reading = Reading(
        points=torch.zeros(1, 5, 2),
        mesh=torch.zeros(1, 478, 3),
        presence=torch.ones(1),
        pose=torch.tensor([[yaw, 0.0, 0.0]]),
        embeddings={},
    )
    return Portrait(
        name=name,
        path=Path(f"{name}.jpg"),
        person=person or name,
        expression=expression,
        faces=Faces.none(),
        reading=reading,
        groups=groups,
    )


@pytest.fixture
def crowd():
    return [
        portrait(f"{sex}_{tone}_{i}", sex=sex, tone=tone)
        for sex in ("female", "male")
        for tone in ("dark", "light")
        for i in range(10)
    ]


@pytest.fixture
def twins():
    return [
        portrait(f"{i:03}_{expression}", f"{i:03}", expression)
        for i in range(12)
        for expression in ("neutral", "smiling")
    ]


def test_each_source_is_put_on_five_others_of_every_kind(crowd):
    made = plan(crowd, "cross", 40)
    assert len(made.pairs) == 40
    assert len(made.gallery) == len(crowd)
    by_source = {}
    for pair in made.pairs:
        by_source.setdefault(pair.source, []).append(pair.target)
    assert len(by_source) == 8
    for source, targets in by_source.items():
        assert len(set(targets)) == 5
        assert source not in targets
        alike = [
            tuple(crowd[t].groups[kind] == crowd[source].groups[kind] for kind in ("sex", "tone"))
            for t in targets
        ]
        assert set(alike) == {(True, True), (True, False), (False, True), (False, False)}
    kinds = Counter(tuple(crowd[source].groups.values()) for source in by_source)
    assert set(kinds.values()) == {2}
    assert max(Counter(pair.target for pair in made.pairs).values()) <= 2


def test_a_seed_chooses_the_pairs(crowd):
    assert plan(crowd, "cross", 40).pairs == plan(crowd, "cross", 40).pairs
    assert plan(crowd, "cross", 40).pairs != plan(crowd, "cross", 40, seed=1).pairs


def test_few_people_and_few_pairs_are_enough():
    two = [portrait("a"), portrait("b")]
    assert {pair[:2] for pair in plan(two, "cross", 100).pairs} == {(0, 1), (1, 0)}
    assert len(plan(two, "cross", 1).pairs) == 1
    with pytest.raises(InvalidOption, match="at least two people"):
        plan(two[:1], "cross", 10)


def test_the_neutral_face_goes_on_the_smile_of_the_same_person(twins):
    assert guess(twins) == "same"
    made = plan(twins, "same", 5)
    assert len(made.pairs) == 5
    assert len(made.gallery) == 12
    for pair in made.pairs:
        source, target = twins[pair.source], twins[pair.target]
        assert (source.expression, target.expression) == ("neutral", "smiling")
        assert source.person == target.person
    assert all(twins[i].expression == "neutral" for i in made.gallery)


def test_across_people_two_pictures_of_one_are_one(twins):
    made = plan(twins, "cross", 60)
    assert len(made.gallery) == 12
    assert all(twins[a].person != twins[b].person for a, b, _ in made.pairs)


def test_names_without_expressions_are_other_people(crowd):
    assert guess(crowd) == "cross"
    with pytest.raises(InvalidOption, match="NAME_neutral"):
        plan(crowd, "same", 10)


def test_listed_pairs_are_taken_as_they_are(crowd, tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text(
        "source,target,result\nfemale_dark_0,male_light_3.jpg,out/1.png\nmale_dark_1,male_dark_2,\n"
    )
    named = read_list(file)
    made = listed(crowd, named)
    assert [(crowd[a].name, crowd[b].name) for a, b, _ in made.pairs] == [
        ("female_dark_0", "male_light_3"),
        ("male_dark_1", "male_dark_2"),
    ]
    assert [pair.result for pair in made.pairs] == [tmp_path / "out/1.png", None]
    assert made.protocol == "cross"
    with pytest.raises(InvalidOption, match="nobody"):
        listed(crowd, [("nobody", "male_dark_1", None)])


def test_a_list_of_one_person_is_the_same_person(twins):
    made = listed(twins, [("001_smiling", "001_neutral", None)])
    assert made.protocol == "same"
    assert len(made.gallery) == 12
    assert twins[made.pairs[0].source].name in {twins[i].name for i in made.gallery}


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "source\nx\n", b"\xff\xfe\x00"])
def test_a_bad_list_is_refused(tmp_path, text):
    file = tmp_path / "pairs.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidOption, match="pair-list"):
        read_list(file)
    with pytest.raises(InvalidOption, match="pair-list"):
        read_list(tmp_path / "missing.csv")


# Groups


@pytest.mark.parametrize(
    ("name", "sex"),
    [("female_03", "female"), ("male-3", "male"), ("x_male", "male"), ("femalex", None)],
)
def test_the_sex_is_read_from_the_name(name, sex):
    assert groups_of(name, 0.0, None).get("sex") == sex


def test_angle_and_age_choose_the_group():
    assert groups_of("x", 60, 20) == {"tone": "light", "age": "under 35"}
    assert groups_of("x", 25, 35) == {"tone": "medium", "age": "35 to 54"}
    assert groups_of("x", -40, 80) == {"tone": "dark", "age": "55 and over"}
    assert groups_of("x", math.nan, None) == {}


@pytest.mark.parametrize(
    ("rgb", "lab"),
    [  # CIE L*a*b* under D65, as in Lindbloom's calculator
        ((1.0, 1.0, 1.0), (100, 0, 0)),
        ((0.0, 0.0, 0.0), (0, 0, 0)),
        ((1.0, 0.0, 0.0), (53.24, 80.09, 67.20)),
        ((0.0, 0.0, 1.0), (32.30, 79.19, -107.86)),
    ],
)
def test_colours_are_those_of_the_cie(rgb, lab):
    assert cielab(torch.tensor(rgb)) == pytest.approx(lab, abs=0.02)


def test_the_angle_is_that_of_the_cheeks_colour():
    mesh = torch.full((1, 468, 3), 50.0)
    points = torch.tensor([[[40.0, 40], [60, 40], [50, 50], [42, 60], [58, 60]]])
    faces = Faces(torch.zeros(1, 4), points, torch.ones(1), torch.zeros(1), mesh)
    frame = torch.zeros(100, 100, 3, dtype=torch.uint8)
    frame[40:60, 40:60] = torch.tensor([224, 172, 140], dtype=torch.uint8)
    lightness, _, b = cielab(torch.tensor([224, 172, 140]) / 255)
    expected = math.degrees(math.atan((lightness - 50) / b))
    assert typology_angle(frame, faces) == pytest.approx(expected, abs=1e-6)
    assert 30 < expected < 60


def test_labels_are_read_from_a_table(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("name,sex,glasses\na.jpg,female,yes\nb,male,\n")
    assert read_labels(file) == {
        "a.jpg": {"sex": "female", "glasses": "yes"},
        "b": {"sex": "male"},
    }
    file.write_text("who,sex\na,female\n")
    with pytest.raises(InvalidOption, match="labels"):
        read_labels(file)


def test_a_pair_counts_for_both_and_for_what_they_share():
    a, b = portrait("a", sex="female", tone="dark"), portrait("b", sex="male", yaw=-30)
    assert groups_of_pair(a, b) == {
        "sex of the source": "female",
        "sex of the target": "male",
        "sex of both": "different",
        "tone of the source": "dark",
        "head of the target": "turned",
    }


def test_groups_have_their_own_means_and_small_ones_none():
    groups = [{"sex": "a"}] * 6 + [{"sex": "b"}] * 5 + [{"sex": "c"}] * 2
    groups = [{**one, "lone": "x"} for one in groups]
    values = {"x": torch.tensor([1.0] * 6 + [3.0] * 5 + [9.0] * 2)}
    found = by_group(groups, values, clusters=torch.arange(13), geometric=frozenset())
    assert list(found) == ["sex"]
    assert {group: scores["x"].mean for group, scores in found["sex"].items()} == {"a": 1, "b": 3}
