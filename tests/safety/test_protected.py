"""The protected gallery: its file, and what it refuses in pictures and clips."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from conftest import CONSENT

from mien.errors import GalleryUnusable, InvalidOption, ProtectedPerson
from mien.safety import Gallery, Protected

ADA = Protected("Ada", (0.6, 0.8))
BEN = Protected("Ben", (1.0, 0.0))


@pytest.fixture
def gallery(tmp_path):
    return Gallery(tmp_path / "home")


@pytest.fixture
def protect(swapper, monkeypatch, tmp_path):
    """Return what puts people in the gallery of the swapper, which is a new one."""
    gallery = Gallery(tmp_path / "home")
    monkeypatch.setattr(swapper._guard, "gallery", gallery)

    def add(label, path):
        face = tuple(swapper.reference(path).embedding.tolist())
        gallery.add([Protected(label, face)])

    return add


def events(gallery):
    lines = (gallery.audit.folder / "audit-00001.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_it_ships_empty_and_no_file_is_made_by_looking(gallery):
    assert gallery.all() == ()
    assert not gallery.path.parent.exists()


def test_what_is_added_is_there_for_others_and_for_its_owner_alone(gallery, tmp_path):
    assert gallery.add([ADA, BEN, ADA]) == 2
    assert gallery.add([BEN]) == 0
    found = Gallery(tmp_path / "home").all()
    assert [one.label for one in found] == ["Ada", "Ben"]
    assert found[0].face == pytest.approx(ADA.face)
    assert gallery.path.stat().st_mode & 0o777 == 0o600
    assert gallery.all() is gallery.all()  # what does not change is not read again


def test_removing_takes_all_of_a_label(gallery):
    gallery.add([ADA, BEN, replace(ADA, face=(0.8, 0.6))])
    assert gallery.remove("Ada") == 2
    assert [one.label for one in gallery.all()] == ["Ben"]
    with pytest.raises(InvalidOption, match="protect list"):
        gallery.remove("Ada")


def test_the_log_names_nobody(gallery):
    gallery.add([ADA])
    gallery.remove("Ada")
    said = [line["event"] for line in events(gallery)]
    assert said == ["log.begun", "protected.added", "protected.removed"]
    assert "Ada" not in json.dumps(events(gallery))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"format": "mien protected 2", "space": "sface", "people": []}',
        '{"format": "mien protected 1", "space": "sface", "people": [{"label": "x"}]}',
        '{"format": "mien protected 1", "space": "sface", "people": [{"label": "x", "face": "?"}]}',
        '{"format": "mien protected 1", "space": "sface", "people": [{"label": "x", "face": ""}]}',
    ],
)
def test_a_damaged_gallery_is_no_empty_one(gallery, content):
    gallery.add([ADA])
    gallery.path.write_text(content)
    with pytest.raises(GalleryUnusable, match=r"damaged|another version"):
        gallery.all()


def test_a_protected_source_is_refused(swapper, protect, people):
    who = swapper.identity(people["dev"], consent=CONSENT)
    protect("Dev D.", people["dev"])
    with pytest.raises(ProtectedPerson, match=r"the source.*'Dev D.'.*refused from 0.44") as caught:
        swapper.swap(people["ben"], who)
    assert caught.value.score == pytest.approx(1, abs=1e-3)


def test_a_protected_face_is_refused_and_nobody_else_s(swapper, protect, people, painted):
    who = swapper.identity(people["dev"], consent=CONSENT)
    protect("Ben", people["ben"])
    swapper.swap(people["ada"], who)
    with pytest.raises(ProtectedPerson, match="a face in the picture"):
        swapper.swap(people["ben"], who)
    line = json.loads(
        sorted(swapper.ledger.audit.folder.glob("*.jsonl"))[-1].read_text().splitlines()[-1]
    )
    assert (line["event"], line["reason"]) == ("refused", "ProtectedPerson")
    assert line["records"] == [who.consent]
    assert "Ben" not in json.dumps(line)


def test_who_is_not_to_be_swapped_may_stand_beside(
    swapper, protect, people, load, tmp_path, painted
):
    from PIL import Image

    both = tmp_path / "both.png"
    picture = Image.new("RGB", (560, 260))
    picture.paste(Image.open(people["ben"]).resize((250, 250)), (5, 5))
    picture.paste(Image.open(people["ada"]).resize((250, 250)), (300, 5))
    picture.save(both)
    who = swapper.identity(people["dev"], consent=CONSENT)
    protect("Ben", people["ben"])
    assert len(swapper.swap(both, who, only=people["ada"]).swapped.chosen) == 1
    with pytest.raises(ProtectedPerson):
        swapper.swap(both, who, faces="all")


def test_a_clip_is_refused_and_nothing_is_left(swapper, protect, clips, people, tmp_path, painted):
    who = swapper.identity(people["dev"], consent=CONSENT)
    protect("Ben", people["ben"])
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(ProtectedPerson, match="a face at"):
        swapper.swap_video(
            clips["late"], who, output=folder / "o.mkv", preview=folder / "p.png", resume=True
        )
    assert list(folder.iterdir()) == []


def test_commands_add_a_folder_list_and_remove(mien_, people, tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "people"
    folder.mkdir()
    for name in ("ada", "ben"):
        (folder / f"{name}.png").write_bytes(people[name].read_bytes())
    Image.new("RGB", (64, 64)).save(folder / "nobody.png")
    code, out, err = mien_("protect", "add", folder)
    assert (code, out[:9]) == (5, "2 picture")
    assert "nobody.png" in err
    assert mien_("protect", "add", people["ada"], "--name", "Ada A.")[0] == 0
    rows = json.loads(mien_("protect", "list", "--json")[1])
    assert [row["label"] for row in rows] == ["ada", "ben", "Ada A."]
    assert mien_("protect", "remove", "ada", "Ada A.")[0] == 0
    assert "ben" in mien_("protect", "list")[1]
    assert mien_("protect", "remove", "nobody")[0] == 2
