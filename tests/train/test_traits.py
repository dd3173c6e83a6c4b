import math

import pytest
import torch
from torch import Tensor

from mien.train.traits import CHUNK, GLASSES, glasses, tone

BROWN, FAIR = (96, 60, 42), (232, 200, 178)


def plain(colour: tuple[int, int, int], side: int = 256) -> Tensor:
    """Return a picture of one colour, uint8 (1, 3, side, side)."""
    return torch.tensor(colour, dtype=torch.uint8)[None, :, None, None].repeat(1, 1, side, side)


def face() -> Tensor:
    """Return a crude face: eyes, brows, nostrils and a mouth, of soft outline."""
    picture = plain(FAIR).float()
    y, x = torch.meshgrid(torch.arange(256.0), torch.arange(256.0), indexing="ij")
    for centre, top, wide, high in (
        (93, 103, 11, 4),
        (163, 103, 11, 4),
        (93, 84, 16, 3),
        (163, 84, 16, 3),
        (120, 150, 4, 3),
        (136, 150, 4, 3),
        (128, 185, 28, 4),
    ):
        spot = torch.exp(-((((x - centre) / wide) ** 2 + ((y - top) / high) ** 2) ** 2))
        picture = picture * (1 - 0.7 * spot)
    return picture.round().byte()


def bespectacled() -> Tensor:
    """Return the same with a dark frame of three pixels' width."""
    picture = face()
    for left, right in ((62, 118), (138, 194)):
        for rows, columns in (
            ((88, 91), (left, right)),
            ((134, 137), (left, right)),
            ((88, 137), (left, left + 3)),
            ((88, 137), (right - 3, right)),
        ):
            picture[:, :, slice(*rows), slice(*columns)] = 30
    picture[:, :, 112:115, 118:138] = 30
    for columns in ((40, 62), (194, 216)):
        picture[:, :, 100:103, slice(*columns)] = 30
    return picture


def test_spectacles_raise_the_score():
    bare, worn = glasses(torch.cat([face(), bespectacled()])).tolist()
    assert bare < GLASSES < worn
    assert worn - bare > 5


def test_left_and_right_are_alike():
    picture = bespectacled()
    picture[:, :, :, 190:] = 200
    assert torch.equal(glasses(picture.flip(3)), glasses(picture))


def test_a_picture_without_lines_has_no_spectacles():
    score = glasses(plain(FAIR))
    assert torch.isfinite(score).all()
    assert score.item() < GLASSES


def test_the_score_does_not_depend_on_brightness_of_the_whole():
    picture = bespectacled()
    assert glasses(picture // 2).item() == pytest.approx(glasses(picture).item(), abs=0.3)


@pytest.mark.parametrize(("colour", "low", "high"), [(BROWN, -70, 0), (FAIR, 41, 90)])
def test_brown_is_dark_and_fair_is_light(colour, low, high):
    assert low < tone(plain(colour)).item() < high


def test_the_angle_is_that_of_the_ruler():
    from mien.evaluate.people import cielab

    for colour in (BROWN, FAIR, (150, 110, 90), (60, 70, 120)):
        lightness, _, b = cielab(torch.tensor(colour) / 255)
        wanted = math.degrees(math.atan2(lightness - 50, b))
        assert tone(plain(colour)).item() == pytest.approx(wanted, abs=1e-2)


def test_only_the_cheeks_count():
    picture = plain((40, 90, 200))
    for x in (72, 184):
        picture[:, :, 130:166, x - 18 : x + 18] = plain(BROWN, 36)
    assert torch.equal(tone(picture), tone(plain(BROWN)))


def test_a_grey_picture_has_no_tone():
    ramp = torch.arange(256, dtype=torch.uint8).expand(1, 3, 256, 256)
    assert tone(ramp).isnan().all()
    assert not glasses(ramp).isnan().any()


@pytest.mark.parametrize("side", [128, 256, 320])
def test_any_side_will_do(side):
    picture = plain(BROWN, side)
    assert tone(picture).item() == pytest.approx(tone(plain(BROWN)).item(), abs=1e-4)
    assert glasses(picture).shape == (1,)


@pytest.mark.parametrize("trait", [glasses, tone])
def test_a_batch_is_its_pictures(trait):
    one = trait(bespectacled())
    assert one.dtype == torch.float32
    assert one.shape == (1,)
    assert trait(bespectacled()[:0]).shape == (0,)
    assert trait(bespectacled()[:0]).dtype == torch.float32
    many = trait(torch.cat([plain(BROWN, 256).expand(CHUNK, 3, 256, 256), bespectacled()]))
    assert many.shape == (CHUNK + 1,)
    assert many[-1:].tolist() == pytest.approx(one.tolist(), abs=1e-4)


def test_the_pictures_are_left_as_they_were():
    picture = bespectacled()
    glasses(picture)
    tone(picture)
    assert torch.equal(picture, bespectacled())
