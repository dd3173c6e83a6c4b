"""The tensor code and the networks on a GPU give what they give on the CPU."""

from __future__ import annotations

from fractions import Fraction

import cv2
import numpy as np
import onnxruntime as ort
import pytest
import torch
from conftest import CONSENT, nothing_waits, scene
from filmed import planes
from torch import Tensor

from mien import Cast, Catalogue, Swapper
from mien.engines import OnnxEngine, TorchEngine, choose, settled
from mien.engines.cache import EngineCache
from mien.engines.prepared import PreparedEngine
from mien.engines.tensorrt import fault_of_tensorrt, open_tensorrt
from mien.geometry import cut, fit_similarity, paste, template, uncover
from mien.media.clip import StoredFrame
from mien.stages.color import match_color
from mien.stages.mask import face_mask
from mien.stages.poisson import poisson_blend
from mien.stages.trial import RoleTrial
from mien.types import Frame, Role

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]

CODE = 1 / 255


def oval():
    """Return the outline of a face in a crop of 128 pixels, (1, 60, 2)."""
    angle = torch.linspace(0, 6.283, 60)
    return torch.stack([64 + 40 * angle.cos(), 64 + 52 * angle.sin()], dim=-1)[None]


@pytest.fixture(scope="module")
def parts(load):
    """A frame with two faces, their matrices, and crops, on the CPU."""
    frame = torch.cat([scene([load("ben")], 480, 1), scene([load("mei")], 480, 1)], dim=1)
    points = template("arcface_128").at(300)
    matrices = fit_similarity(
        torch.stack([points + 80, points.flip(0) * 0.2 + torch.tensor([700.0, 100.0])]),
        template("arcface_128").at(128),
    )
    return frame, matrices, cut(frame, matrices, 128)


def test_cut_and_paste(parts):
    frame, matrices, crops = parts
    for where in (matrices, matrices.cuda()):
        on_gpu = cut(frame.cuda(), where, 128)
        assert on_gpu.is_cuda
        # the CPU shrinks bytes, and so rounds once more
        assert float((on_gpu.cpu() - crops).abs().max()) < 1.5 * CODE
    mask = face_mask(oval().expand(2, -1, -1), 128)[:, None]
    patches = torch.cat([crops.flip(1) * mask, mask], dim=1)
    one, other = frame.clone(), frame.cuda()
    paste(one, patches, matrices)
    covered = paste(other, patches.cuda(), matrices.cuda())
    assert not torch.equal(one, frame)
    # in one pass the enlarged face of 300 pixels is looked up elsewhere between its pixels
    off = (one.int() - other.cpu().int()).abs()
    assert float(off.float().mean()) < 0.15
    assert int(off.max()) <= 8
    uncover(other, covered)
    assert torch.equal(other.cpu(), frame)


@pytest.mark.parametrize("number", range(torch.cuda.device_count()))
def test_kernels_run_where_the_pixels_are(parts, number):
    frame, matrices, crops = parts
    made = cut(frame.to(f"cuda:{number}"), matrices, 128)
    assert made.device.index == number
    assert float((made.cpu() - crops).abs().max()) < 1.5 * CODE


def test_mask_color_and_poisson(parts):
    crops = parts[2]
    outline = oval().expand(2, -1, -1)
    mask = face_mask(outline, 128)
    assert float((face_mask(outline.cuda(), 128).cpu() - mask).abs().max()) < 1e-4
    matched = match_color(crops.flip(0), crops, mask)
    on_gpu = match_color(crops.flip(0).cuda(), crops.cuda(), mask.cuda())
    assert float((on_gpu.cpu() - matched).abs().max()) < CODE
    blended = poisson_blend(crops.flip(0), crops, mask)
    on_gpu = poisson_blend(crops.flip(0).cuda(), crops.cuda(), mask.cuda())
    assert float((on_gpu.cpu() - blended).abs().max()) < CODE / 2


def test_a_frame_on_the_gpu_comes_back_there_and_equal(swapper, load, parts):
    frame = parts[0]
    who = swapper.identity(load("dev"), consent=CONSENT)
    cast = Cast((Role(who),), "all")
    here = swapper._pipeline(Frame(frame.clone()), cast)
    there = swapper._pipeline(Frame(frame.cuda()), cast)
    assert there.frame.pixels.is_cuda
    assert len(there.chosen) == len(here.chosen) == 2
    a, b = here.frame.pixels, there.frame.pixels.cpu()
    changed = (a != frame).any(dim=-1) | (b != frame).any(dim=-1)
    error = (a[changed].float() - b[changed].float()).square().mean()
    assert float(10 * torch.log10(255**2 / error)) >= 45
    boxes = torch.zeros(frame.shape[:2], dtype=torch.bool)
    for left, top, right, bottom in here.faces.boxes.int().tolist():
        boxes[max(0, top - 1) : bottom + 3, max(0, left - 1) : right + 3] = True
    assert torch.equal(a[~boxes], b[~boxes])


def test_people_are_told_apart_on_the_gpu_too(swapper, load, parts):
    ben, mei = (swapper.identity(load(name), consent=CONSENT) for name in ("ben", "mei"))
    cast = Cast((Role(ben, mei), Role(mei, ben)))
    here = swapper._pipeline(Frame(parts[0].clone()), cast)
    there = swapper._pipeline(Frame(parts[0].cuda()), cast)
    assert there.distances is not None
    # the CPU shrinks bytes, and so rounds once more
    assert float((there.distances - here.distances).abs().max()) < 5e-3
    assert (there.chosen, there.roles) == (here.chosen, here.roles)
    assert sorted(there.roles) == [0, 1]


def test_a_clip_on_the_gpu_is_followed_as_on_the_cpu(swapper, load, parts):
    cast = Cast((Role(swapper.identity(load("dev"), consent=CONSENT)),), "all")
    shots = [parts[0], parts[0].roll(4, dims=1), parts[0].roll(8, dims=1), parts[0].flip(0)]
    results = []
    for move in (Tensor.clone, Tensor.cuda):
        clip = swapper.clip(cast, strength=0.9)
        frames = (Frame(move(shot), time=Fraction(i, 25)) for i, shot in enumerate(shots))
        results.append([clip(frame) for frame in frames])
    for here, there in zip(*results, strict=True):
        assert there.frame.pixels.is_cuda
        assert (here.chosen, here.roles) == (there.chosen, there.roles)
        assert here.faces.ids.tolist() == there.faces.ids.tolist()
        assert float((here.faces.points - there.faces.points).abs().max()) < 0.5


NETWORKS = [card.name for card in Catalogue() if card.role not in ("age", "content", "watermark")]
"""Those that swap: what refuses or finds marks runs in ONNX Runtime, whatever the provider."""


def opened(name, precision):
    """Return a network on the GPU, its trial, and the trial's batch."""
    card = Catalogue().card(name)
    trial = RoleTrial(card.contract)
    engine = TorchEngine(name, card.read, precision=precision, trial=trial)
    return engine, trial, trial.inputs({port.name: port.shape for port in engine.inputs})


@pytest.mark.parametrize("precision", [None, "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_on_the_gpu_says_what_onnx_runtime_says(name, precision):
    engine, trial, inputs = opened(name, precision)
    assert (engine.provider, engine.device.type) == ("torch-cuda", "cuda")
    assert (engine.precision, engine.fell_back) == (precision or "float16", ())
    made = engine({k: v.cuda() for k, v in inputs.items()})
    assert all(value.is_cuda and value.dtype == torch.float32 for value in made.values())
    wanted = OnnxEngine(name, Catalogue().card(name).read)(inputs)
    assert trial.fault(wanted, {k: v.cpu() for k, v in made.items()}) is None
    assert not any(value.is_cuda for value in engine(inputs).values())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_module_waits_for_nothing_and_fits_a_cuda_graph(name):
    engine, _, inputs = opened(name, None)
    given = [inputs[port.name].to(engine.device) for port in engine.inputs]
    with torch.no_grad():
        stream = torch.cuda.Stream(engine.device)
        stream.wait_stream(torch.cuda.current_stream(engine.device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                engine.module(*given)
        torch.cuda.current_stream(engine.device).wait_stream(stream)
        with nothing_waits():
            wanted = [value.clone() for value in engine.module(*given)]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = engine.module(*given)
    for value in made:
        value.zero_()
    graph.replay()
    torch.cuda.synchronize()
    for a, b in zip(made, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2 * float(b.abs().max()))


def test_the_safe_mode_of_half_precision_is_float32_and_then_the_cpu():
    engine, _, inputs = opened("mien-occlusion", "float16")
    safer = engine.safer()
    assert (safer.provider, safer.precision, safer.device) == (
        "torch-cuda",
        "float32",
        engine.device,
    )
    assert safer(inputs)["logit"].shape == engine(inputs)["logit"].shape
    assert safer.safer().provider == "cpu"


@pytest.mark.parametrize("number", range(torch.cuda.device_count()))
def test_a_gpu_is_chosen_by_its_number(number, load):
    swapper = Swapper(provider=f"torch-cuda:{number}")
    assert {engine.device.index for engine in swapper._engines} == {number}


def test_a_swap_with_all_networks_on_the_gpu(swapper, load, parts):
    assert settled("torch-cuda").startswith("torch-cuda:")
    other = Swapper(provider="torch-cuda")
    assert set(other.providers.values()) == {"torch-cuda"}
    who = [which.identity(load("dev"), consent=CONSENT) for which in (swapper, other)]
    here, there = (
        which.swap(load("ben"), one).pixels
        for which, one in zip((swapper, other), who, strict=True)
    )
    changed = (here != load("ben")).any(axis=-1)
    error = ((here[changed].astype(float) - there[changed]) ** 2).mean()
    assert 10 * torch.log10(torch.tensor(255**2 / error)) >= 40


def test_a_clip_is_on_the_gpu_from_planes_to_planes(
    swapper, load, clips, tmp_path, no_watermark, monkeypatch
):
    homes, picture = [], StoredFrame.picture

    def told(stored, *device):
        homes.extend(device)
        return picture(stored, *device)

    monkeypatch.setattr(StoredFrame, "picture", told)
    for which, path in ((swapper, "cpu.mkv"), (Swapper(provider="torch-cuda"), "gpu.mkv")):
        who = which.identity(load("dev"), consent=CONSENT)
        report = which.swap_video(clips["exact"], who, output=tmp_path / path)
        assert report.swapped == report.frames == 6
    assert homes == [torch.device("cuda", 0)] * 6
    made = zip(planes(clips["exact"]), planes(tmp_path / "cpu.mkv"), planes(tmp_path / "gpu.mkv"),
               strict=True)  # fmt: skip
    for before, here, there in made:
        for source, one, other in zip(before, here, there, strict=True):
            changed = one != source
            assert changed.sum() > 100
            # some samples of a face are, by chance, what they were before
            face = cv2.dilate(changed.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
            error = ((one[face].astype(float) - other[face]) ** 2).mean()
            assert 10 * np.log10(255**2 / error) >= 40
            # codes at a mask's edge, where the one changes a sample and the other does not
            assert np.abs(other[~face].astype(int) - source[~face]).max() <= 2


# ONNX Runtime on the GPU

ON_CUDA = pytest.mark.skipif(
    "CUDAExecutionProvider" not in ort.get_available_providers(),
    reason="this ONNX Runtime was built without CUDA",
)


def some(name, size):
    """Return inputs of the network of this name, on the CPU."""
    draw = torch.Generator().manual_seed(size)
    if name == "yunet":
        return {"input": torch.rand(1, 3, 32 * size, 320, generator=draw) * 255}
    source = torch.nn.functional.normalize(torch.randn(size, 128, generator=draw))
    return {"target": torch.rand(size, 3, 256, 256, generator=draw), "source": source}


@ON_CUDA
@pytest.mark.parametrize("name", ["yunet", "mien-256"])
def test_bound_outputs_stay_on_the_gpu_and_are_the_cpu_s(name):
    read = Catalogue().card(name).read
    here, there = choose(name, read), choose(name, read, provider="cuda:0")
    assert there.provider == "cuda"
    assert there._bound is not None
    assert there.nodes is None or there.nodes["cuda"] > there.nodes.get("cpu", 0)
    for size in (1, 3, 5):
        inputs = some(name, size)
        on_gpu = there({key: value.cuda() for key, value in inputs.items()})
        for key, value in here(inputs).items():
            assert on_gpu[key].is_cuda
            # TensorFloat-32 has ten bits of mantissa
            torch.testing.assert_close(on_gpu[key].cpu(), value, atol=2e-2, rtol=2e-2)
        from_host = there(inputs)
        assert {value.device.type for value in from_host.values()} == {"cpu"}


@ON_CUDA
def test_inputs_that_are_still_being_made_are_waited_for():
    engine = choose("mien-256", Catalogue().card("mien-256").read, provider="cuda")
    inputs = {key: value.cuda() for key, value in some("mien-256", 4).items()}
    expected = engine(inputs)["output"].clone()
    heavy = torch.randn(4096, 4096, device="cuda")
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            late = torch.zeros_like(inputs["target"])
            for _ in range(20):
                heavy = (heavy @ heavy).clamp(-1, 1)
            late += inputs["target"] + 0 * heavy.sum()
            found = engine({"target": late, "source": inputs["source"]})["output"]
            torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


@ON_CUDA
def test_auto_takes_the_gpu():
    engine = choose("yunet", Catalogue().card("yunet").read, provider="auto")
    assert engine.provider.partition(":")[0] in ("torch-cuda", "tensorrt", "cuda")


@pytest.mark.skipif(
    "TensorrtExecutionProvider" not in ort.get_available_providers(),
    reason="this ONNX Runtime was built without TensorRT",
)
def test_tensorrt_takes_over_and_is_found_again(tmp_path):
    if fault := fault_of_tensorrt(0):
        pytest.skip(fault)
    read, files = Catalogue().card("mien-256").read, EngineCache(tmp_path)
    engine = open_tensorrt("mien-256", read, files=files)
    assert isinstance(engine, PreparedEngine)
    assert engine.wait(600)
    assert engine.provider == "tensorrt"
    inputs = some("mien-256", 20)  # more than one part
    found = engine({key: value.cuda() for key, value in inputs.items()})["output"]
    expected = choose("mien-256", read)(inputs)["output"]
    assert found.is_cuda
    torch.testing.assert_close(found.cpu(), expected, atol=2e-2, rtol=2e-2)
    again = open_tensorrt("mien-256", read, files=files, only_ready=True)
    assert again.provider == "tensorrt"
