"""HDR: kept as it is, seen in sRGB, and brought to BT.709 on request (T1)."""

from fractions import Fraction

import av
import numpy as np
import pytest
from drawn import read_back, rewrite, samples, write_clip

from mien.media.clip import Clip
from mien.media.clip.colour import Colour
from mien.media.clip.sight import Tones
from mien.stages.color import through_table

PQ, HLG = 16, 18
SCREEN = (
    "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
    ":max-cll=1000,400"
)


def ramp(number):
    """A frame of grey steps, the darkest on the left."""
    frame = av.VideoFrame(64, 64, "yuv420p10le")
    luma, *chroma = samples(frame)
    luma[:] = (64 + (np.arange(64) // 8) * 110)[None]
    for plane in chroma:
        plane[:] = 512
    return frame


@pytest.fixture(params=[PQ, HLG], ids=["pq", "hlg"])
def hdr(request, tmp_path):
    return write_clip(
        tmp_path / "hdr.mp4",
        codec="libx265",
        name="yuv420p10le",
        size=(64, 64),
        frames=24,
        draw=ramp,
        options={"x265-params": f"log-level=none:lossless=1:{SCREEN}"},
        color_primaries=9,
        color_trc=request.param,
        colorspace=9,
        color_range=1,
    ), request.param


def test_hdr_stays_hdr(hdr):
    path, transfer = hdr
    output, written = rewrite(path)
    before, after = read_back(path)[0], read_back(output)[0]
    assert written.notes == ()
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert new.format.name == "yuv420p10le"
        assert (new.color_primaries, new.color_trc, new.colorspace) == (9, transfer, 9)
        for a, b in zip(samples(old), samples(new), strict=True):
            assert np.abs(a.astype(int) - b).max() <= 2
    assert Clip(output).info.hdr == Clip(path).info.hdr
    assert Clip(output).info.hdr.mastering.brightest == 1000
    assert Clip(output).info.hdr.light.average == 400


def pq_light(code):
    """ST 2084 in another way of writing it: with its constants as decimals."""
    m1, m2, c1, c2, c3 = 0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875
    p = code ** (1 / m2)
    return 10000 * (max(p - c1, 0) / (c2 - c3 * p)) ** (1 / m1)


def pq_code(light):
    m1, m2, c1, c2, c3 = 0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875
    p = (light / 10000) ** m1
    return ((c1 + c2 * p) / (1 + c3 * p)) ** m2


def hlg_light(code):
    """A grey of HLG on a screen of 1,000 cd/m2: its system gamma acts on luma, which grey is."""
    a, b, c = 0.17883277, 1 - 4 * 0.17883277, 0.55991073
    scene = code**2 / 3 if code <= 0.5 else (np.exp((code - c) / a) + b) / 12
    return 1000 * scene**1.2


def reference(light, peak=1000.0, white=203.0):
    """BT.2390's EETF for one grey, then the inverse of BT.1886 with a gamma of 2.4."""
    e1 = pq_code(light) / pq_code(peak)
    most = pq_code(white) / pq_code(peak)
    ks = 1.5 * most - 0.5
    if e1 > ks:
        t = (e1 - ks) / (1 - ks)
        e1 = (
            (2 * t**3 - 3 * t**2 + 1) * ks
            + (t**3 - 2 * t**2 + t) * (1 - ks)
            + (-2 * t**3 + 3 * t**2) * most
        )
    shown = pq_light(e1 * pq_code(peak)) / white
    return min(max(shown, 0), 1) ** (1 / 2.4)


def test_sdr_is_tone_mapped_and_says_bt709(hdr):
    path, transfer = hdr
    output, written = rewrite(path, sdr=True)
    light = pq_light if transfer == PQ else hlg_light
    codes = [(64 + step * 110 - 64) / 876 for step in range(8)]
    expected = np.mean([16 + 219 * reference(light(min(code, 1))) for code in codes])
    frames = read_back(output)[0]
    assert len(frames) == 24
    for frame in frames:
        assert frame.format.name == "yuv420p"
        assert (frame.color_primaries, frame.color_trc, frame.colorspace) == (1, 1, 1)
        assert samples(frame)[0].mean() == pytest.approx(expected, rel=0.03)
    assert written.codec == "hevc"
    assert Clip(output).info.hdr.mastering is None


@pytest.mark.parametrize(("transfer", "primaries"), [(PQ, 9), (HLG, 9), (14, 9), (1, 12)])
def test_the_table_is_the_way_back_from_sight(transfer, primaries):
    tones = Tones(Colour(primaries=primaries, transfer=transfer, matrix=9), 1000.0)
    line = np.linspace(0.1, 0.9, 6)
    colours = np.stack(np.meshgrid(line, line, line), axis=-1).reshape(1, -1, 3)
    import torch

    table = tones.table()
    planes = torch.from_numpy(colours).float().permute(2, 0, 1)[None]
    own = through_table(planes, table)[0].permute(1, 2, 0).numpy()
    seen = tones.sight(np.round(own * 65535).astype(np.uint16)) / 255
    assert np.abs(seen - colours).max() < 3 / 255


def test_hdr_pictures_come_with_sight_and_table(hdr):
    path, _ = hdr
    picture = next(Clip(path).frames()).picture()
    assert picture.pixels.numpy().dtype == np.uint16
    assert picture.view.numpy().dtype == np.uint8
    assert picture.table.shape[0] == 3
    assert picture.view.float().mean() > 30


def test_sdr_of_sdr_is_itself(tmp_path):
    path = write_clip(tmp_path / "a.mp4")
    frame = next(Clip(path).frames())
    assert frame.in_sdr() is frame
    assert frame.time == Fraction(0)
