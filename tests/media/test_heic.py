"""HEIC, which the extra 'heic' reads: a bundled portrait, since nothing here can write one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import CONSENT
from PIL import Image

from mien.errors import PictureUnreadable, PictureUnwritable
from mien.media import check_output, read_picture
from mien.media.tags import read_exif

PORTRAIT = Path(__file__).parent / "mei.heic"
ARTIST = 0x013B


def test_a_heic_picture_is_read_with_its_metadata(portraits):
    read = read_picture(PORTRAIT)
    with Image.open(portraits["mei"]) as image:
        original = np.asarray(image.convert("RGB").resize((192, 192))).astype(int)
    assert np.abs(read.frame.view.numpy() - original).mean() < 6
    assert read_exif(read.metadata.exif).entries[ARTIST].data == b"the artist\0"


def test_a_face_in_it_is_swapped_into_another_format(swapper, portraits, tmp_path):
    dev = swapper.identity(portraits["dev"], consent=CONSENT)
    swapper.swap(PORTRAIT, dev).save(tmp_path / "out.jpg")
    with Image.open(tmp_path / "out.jpg") as image:
        assert image.size == (192, 192)
        assert image.getexif()[ARTIST] == "the artist"


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(PictureUnreadable, match=r"mei\.heic.*pip install 'mien\[heic\]'"):
        read_picture(PORTRAIT)


def test_it_cannot_be_written(tmp_path):
    with pytest.raises(PictureUnwritable, match=r"'\.heic' cannot be written"):
        check_output(tmp_path / "out.heic")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_file_that_was_cut_short_is_named(tmp_path, share):
    data = PORTRAIT.read_bytes()
    (tmp_path / "p.heic").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(PictureUnreadable, match=r"p\.heic"):
        read_picture(tmp_path / "p.heic")
