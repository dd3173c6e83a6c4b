"""What ffprobe, where there is one, says of clips that mien wrote."""

import json
import shutil
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from drawn import rewrite, write_clip

pytestmark = pytest.mark.skipif(shutil.which("ffprobe") is None, reason="there is no ffprobe")


def probe(path, *options):
    command = ["ffprobe", "-v", "error", "-of", "json", *options, f"file:{path}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def test_times_tags_and_turn(tmp_path):
    times = np.cumsum([0] + [33, 50] * 9).tolist()
    path = write_clip(
        tmp_path / "a.mp4",
        times=times,
        unit=Fraction(1, 1000),
        matrix=(0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30),
        sounds=[("aac", 1, "eng")],
        color_range=1,
        color_primaries=1,
        color_trc=1,
        colorspace=1,
    )
    output, _ = rewrite(path)
    show = ("-show_streams", "-show_frames", "-select_streams", "v:0")
    old, new = probe(path, *show), probe(output, *show)
    seconds = [[float(frame["pts_time"]) for frame in found["frames"]] for found in (old, new)]
    assert seconds[0] == pytest.approx(seconds[1], abs=1e-3)
    for key in ("color_range", "color_space", "color_transfer", "color_primaries", "pix_fmt"):
        assert old["streams"][0][key] == new["streams"][0][key]
    turns = [found["streams"][0]["side_data_list"][0]["rotation"] for found in (old, new)]
    assert turns[0] == turns[1]
