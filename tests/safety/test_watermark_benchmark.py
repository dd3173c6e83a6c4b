import importlib.util
import json
import sys
from pathlib import Path

import pytest

from mien.nets.export import export
from mien.nets.watermark import Decoder, Encoder, WatermarkShape

ROOT = Path(__file__).parents[2]
TINY = WatermarkShape(size=64, width=16, depth=1, widths=(8, 8, 8, 8, 8))


@pytest.fixture(scope="module")
def benchmark():
    path = ROOT / "benchmarks" / "watermark.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_watermarks", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_quick_run_says_all_it_is_to_say(tmp_path, benchmark, capsys):
    networks = Encoder(TINY).eval(), Decoder(TINY).eval()
    for name, network in zip(benchmark.FILES, networks, strict=True):
        export(network, tmp_path / name, int8=False)
    given = ["--quick", "--networks", str(tmp_path), "--json", str(tmp_path / "said.json")]
    benchmark.main(given)
    ours, reference = json.loads((tmp_path / "said.json").read_text())[:2]
    assert (ours["scheme"], reference["scheme"]) == ("ours", "DWT-DCT")
    assert reference["rows"]["none"]["whole"] == 1
    assert reference["rows"]["JPEG 75"]["whole"] == 1
    assert reference["false"] == ours["false"] == 0
    assert ours["psnr"] > 42
    assert set(ours["rows"]) == {*benchmark.changes(), *benchmark.FILMS}
    said = capsys.readouterr().out
    assert "H.264 CRF 28" in said
    assert "false detections" in said


def test_films_and_crops_are_what_they_say(benchmark):
    pixels = benchmark.sky(96, 64)
    frames = benchmark.filmed([pixels] * 3, 28, 0.5)
    assert [tuple(frame.shape) for frame in frames] == [(32, 48, 3)] * 3
    assert benchmark.cropped(benchmark.image(pixels), 0.5, 1, 0).size == (48, 32)
