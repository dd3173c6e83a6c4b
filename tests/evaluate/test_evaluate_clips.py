"""Flicker: of clips whose motion is known."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from mien.errors import InvalidOption
from mien.evaluate.clips import clip_scores, flicker, read_clip
from mien.stages.color import from_oklab


def clip(lightness):
    """Return a clip of flat gray pictures, (T, 3, 8, 8), by their lightness in Oklab."""
    lab = torch.zeros(len(lightness), 3, 8, 8)
    lab[:, 0] = torch.tensor(lightness)[:, None, None]
    return from_oklab(lab)


ALL = torch.ones(6, 8, 8)


def test_a_clip_does_not_flicker_against_itself():
    moving = clip([0.2, 0.5, 0.3, 0.9, 0.1, 0.4])
    assert flicker(moving, moving, ALL) == 0


def test_steady_motion_is_no_flicker():
    still, fading = clip([0.5] * 6), clip([0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    assert flicker(fading, still, ALL) == pytest.approx(0, abs=0.05)


def test_a_flash_to_and_fro_is_measured_by_its_size():
    still, flashing = clip([0.5] * 6), clip([0.51, 0.49] * 3)
    # the second difference is 0.04 in one of three channels
    assert flicker(flashing, still, ALL) == pytest.approx(100 * 0.04 / 3**0.5, rel=0.01)
    assert flicker(still, flashing, ALL) == pytest.approx(100 * 0.04 / 3**0.5, rel=0.01)


def test_a_change_that_moves_with_the_clip_is_no_flicker():
    lightness = torch.tensor([0.2, 0.5, 0.3, 0.7, 0.1, 0.4])
    moving, darker = clip(lightness.tolist()), clip((lightness - 0.08).tolist())
    assert flicker(darker, moving, ALL) == pytest.approx(0, abs=0.01)


def test_only_the_face_counts():
    still, flashing = clip([0.5] * 6), clip([0.5] * 6)
    flashing[::2, :, :3] = 0
    weights = ALL.clone()
    weights[:, :5] = 0
    assert flicker(flashing, still, weights) == pytest.approx(0, abs=1e-3)
    assert flicker(flashing, still, ALL) > 1


def test_a_clip_is_a_folder_or_an_animation(tmp_path):
    frames = [Image.new("RGB", (8, 6), (i * 40, 0, 0)) for i in range(4)]
    folder = tmp_path / "frames"
    folder.mkdir()
    for i, frame in enumerate(frames):
        frame.save(folder / f"{i}.png")
    frames[0].save(tmp_path / "clip.png", save_all=True, append_images=frames[1:], duration=40)
    for path in (folder, tmp_path / "clip.png"):
        read = read_clip(path)
        assert [int(frame[0, 0, 0]) for frame in read] == [0, 40, 80, 120]
        assert read[0].shape == (6, 8, 3)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InvalidOption, match="clip"):
        read_clip(empty)
    with pytest.raises(InvalidOption, match="at least 3 frames"):
        clip_scores(None, None, [torch.zeros(6, 8, 3)] * 2, None, "short")
