import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark():
    path = ROOT / "benchmarks" / "watermark.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_watermarks", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_quick_run_says_all_it_is_to_say(tmp_path, benchmark, capsys, monkeypatch):
    few = {name: benchmark.changes()[name] for name in ("none", "JPEG 75", "crop 0.7")}
    monkeypatch.setattr(benchmark, "changes", lambda: few)
    monkeypatch.setattr(benchmark, "FILMS", {"H.264 CRF 28": benchmark.FILMS["H.264 CRF 28"]})
    benchmark.main(
        ["--quick", "--schemes", "mien", "dwt-dct", "--json", str(tmp_path / "said.json")]
    )
    ours, reference = json.loads((tmp_path / "said.json").read_text())[:2]
    assert (ours["scheme"], reference["scheme"]) == ("mien", "DWT-DCT")
    for name in ("none", "JPEG 75", "crop 0.7"):
        assert ours["whole"][name] == 1
    assert reference["whole"]["JPEG 75"] == 1
    assert reference["whole"]["crop 0.7"] == 0
    assert reference["false"] == ours["false"] == 0
    assert ours["psnr, least"] > 42
    assert ours["sky, greatest"] <= 2
    assert set(ours["whole"]) == {*few, "pan: H.264 CRF 28"}
    said = capsys.readouterr().out
    assert "H.264 CRF 28" in said
    assert "false detections" in said


def test_films_and_crops_are_what_they_say(benchmark):
    pixels = benchmark.sky(96, 64)
    frames = benchmark.filmed([pixels] * 3, 28, 0.5)
    assert [tuple(frame.shape) for frame in frames] == [(32, 48, 3)] * 3
    assert benchmark.cropped(benchmark.image(pixels), 0.5, 1, 0).size == (48, 32)
