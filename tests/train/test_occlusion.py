"""Drawn things change pictures and right answers where they are, and the network learns of them."""

from __future__ import annotations

import json

import pytest
import torch

from mien.nets.occlusion import OcclusionShape
from mien.train.faces import OVAL
from mien.train.geometry import views
from mien.train.occlusion.__main__ import main, restored
from mien.train.occlusion.bases import MAP, Bases, hidden
from mien.train.occlusion.camera import compressed
from mien.train.occlusion.canvas import Dice, convex
from mien.train.occlusion.learn import Learner, Recipe, loss
from mien.train.occlusion.scene import (
    KINDS,
    NAMES,
    NONE,
    Batch,
    _through,
    chosen_kinds,
    covered,
    scene,
    site_of,
)
from mien.train.occlusion.score import false_alarms, overlap

CPU = torch.device("cpu")
SIZE = 64

EYES = {33: (0.30, 0.42), 133: (0.42, 0.42), 362: (0.58, 0.42), 263: (0.70, 0.42)}
BROWS = (46, 53, 52, 65, 55, 70, 63, 105, 66, 107, 276, 283, 282, 295, 285, 300, 293, 334, 296, 336)


def mesh(count):
    """A mesh whose points all lie on the nose, but for the eyes, the brows and the oval."""
    points = torch.full((468, 2), 0.55)
    points[list(BROWS)] = torch.tensor([0.5, 0.36])
    around = torch.linspace(0, 2 * torch.pi, len(OVAL) + 1)[:-1]
    points[OVAL] = torch.stack([0.5 + 0.38 * around.sin(), 0.53 - 0.42 * around.cos()], dim=1)
    for index, place in EYES.items():
        points[index] = torch.tensor(place)
    return (points * 2 - 1).expand(count, -1, -1).clone()


@pytest.fixture
def bases():
    """Six plain faces, as bright as they are numbered."""
    count = 6
    tone = torch.linspace(90, 190, count).view(-1, 1, 1, 1).expand(count, 3, 80, 80)
    corners = torch.tensor([[-1.0, -1], [1, -1], [1, 1], [-1, 1]]).expand(count, 4, 2)
    return Bases(
        pixels=tone.to(torch.uint8).contiguous(),
        quads=corners,
        mesh=mesh(count),
        skin=(tone[:, :, 0, 0] / 255).contiguous(),
        seen=torch.zeros(count, 3, MAP, MAP),
        share=torch.ones(count),
    )


def drawn(bases, kind, seed=3):
    kinds = torch.full((len(bases), 1), NAMES.index(kind) if kind else NONE)
    return scene(bases, torch.arange(len(bases)), kinds, SIZE, Dice(seed, CPU))


@pytest.mark.parametrize("kind", NAMES)
def test_each_kind_changes_answers_where_it_is_and_only_there(bases, kind):
    batch = drawn(bases, kind)
    assert torch.equal(batch.visible, batch.face * (1 - batch.hides))
    assert bool(torch.isfinite(batch.pictures).all())
    assert float(batch.pictures.abs().max()) <= 1
    assert float(batch.hides.min()) >= 0
    assert float(batch.hides.max()) <= 1
    assert bool((batch.weight[batch.hides > 0.5] >= 1).all())


@pytest.mark.parametrize("kind", NAMES)
def test_each_kind_hides_something_and_changes_no_more_than_it_takes(bases, kind):
    rows = torch.arange(len(bases))
    straight = views(*(torch.zeros(6), torch.ones(6), torch.zeros(6, 2), torch.ones(6)))
    site = site_of(bases, rows, straight, SIZE, Dice(5, CPU))
    seen = [KINDS[kind][0](site) for _ in range(4)]
    for layer in seen:
        for part in (layer.colour, layer.alpha, layer.hides):
            assert bool(torch.isfinite(part).all())
            assert 0 <= float(part.min()) <= float(part.max()) <= 1
        assert not bool(layer.hides[layer.alpha == 0].any())
    assert any(float(layer.hides.sum()) > 10 for layer in seen)


def test_no_occluder_no_answer_changed(bases):
    batch = drawn(bases, None)
    assert not batch.hides.any()
    assert torch.equal(batch.visible, batch.face)


def test_under_its_layers_a_picture_keeps_its_pixels(bases):
    rows = torch.arange(len(bases))
    straight = views(*(torch.zeros(6), torch.ones(6), torch.zeros(6, 2), torch.ones(6)))
    site = site_of(bases, rows, straight, SIZE, Dice(5, CPU))
    before = torch.rand(6, 3, SIZE, SIZE)
    after, hides = covered(before, site, torch.full((6, 2), NONE))
    assert torch.equal(after, before)
    assert not hides.any()
    kinds = torch.tensor([[NAMES.index("hand")], *[[NONE]] * 5])
    after, hides = covered(before, site, kinds)
    assert torch.equal(after[1:], before[1:])
    assert not hides[1:].any()


def test_the_same_seed_draws_the_same(bases):
    first, second, third = (drawn(bases, "hand", seed) for seed in (3, 3, 4))
    assert torch.equal(first.pictures, second.pictures)
    assert not torch.equal(first.pictures, third.pictures)


def test_what_is_not_known_counts_for_nothing(bases):
    bases.seen[:, 1] = 1
    batch = drawn(bases, "hand")
    known = (batch.face > 0) & (batch.weight > 0)
    assert torch.equal(known, (batch.face > 0) & (batch.hides > 0.5))


def test_kinds_are_drawn_lowest_first_and_some_pictures_stay_bare():
    kinds = chosen_kinds(2000, torch.Generator().manual_seed(0))
    some = kinds[(kinds != NONE).all(dim=1)]
    assert len(some)
    assert torch.equal(some, some.sort(dim=1).values)
    assert 0.2 < float((kinds == NONE).all(dim=1).float().mean()) < 0.3


def test_points_are_where_the_view_shows_them():
    view = views(*(torch.tensor([0.4]), torch.tensor([1.2]), torch.tensor([[0.1, -0.2]])),
                 torch.tensor([-1.0]))  # fmt: skip
    points = torch.rand(1, 5, 2) - 0.5
    shown = _through(view, points)
    back = (view[:, None, :, :2] * shown[:, :, None]).sum(dim=3) + view[:, None, :, 2]
    torch.testing.assert_close(back, points)


def test_a_polygon_may_go_round_either_way():
    corners = torch.tensor([[[-1.0, -1], [1, -1], [1, 1], [-1, 1]]])
    at = torch.tensor([[[0.0, 0.9, 1.5]]])
    for given in (corners, corners.flip(1)):
        found = convex(at, torch.zeros_like(at), given)
        torch.testing.assert_close(found, torch.tensor([[[-1.0, -0.1, 0.5]]]))


def test_dark_hair_over_the_brow_is_taken_for_hidden():
    pictures = torch.full((2, 3, 80, 80), 0.6)
    pictures[1, :, :20] = 0.1
    found = hidden(pictures, mesh(2), torch.full((2, 3), 0.6))
    assert not found[0].any()
    assert found[1, 0, 12, 32] == 1
    assert not found[1, :, 20:].any()


def test_fine_quantisation_changes_little():
    picture = torch.rand(2, 1, 32, 32).expand(2, 3, 32, 32)
    made = compressed(picture, torch.tensor([0.02, 3.0]))
    assert float((made[0] - picture[0]).abs().max()) < 0.02
    assert float((made[1] - picture[1]).abs().max()) > 0.05


def test_the_loss_of_a_right_answer_is_none_and_of_a_wrong_one_much():
    truth = (torch.rand(2, 1, 8, 8) > 0.5).float()
    ones = torch.ones_like(truth)
    batch = Batch(truth.expand(-1, 3, -1, -1), truth, ones, 1 - truth, ones)
    assert float(loss((truth * 2 - 1) * 30, batch, 0.5)) < 1e-3
    assert float(loss((1 - truth * 2) * 30, batch, 0.5)) > 10


def test_scores_of_those_who_see_everything_and_nothing(bases):
    class Same(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def forward(self, pictures):
            return torch.full_like(pictures[:, :1], self.value)

    assert not false_alarms(Same(1.0), bases, SIZE).any()
    assert bool((false_alarms(Same(-1.0), bases, SIZE) == 1).all())
    assert overlap(Same(1.0), bases, "hand", SIZE) == 0
    assert 0 < overlap(Same(-1.0), bases, "hand", SIZE) < 1


def test_what_the_network_takes_for_hidden_on_bare_faces_counts_for_nothing(bases):
    assert bases.ask(lambda pictures: torch.ones_like(pictures[:, :1]), SIZE) == 0
    assert not bases.seen.any()
    assert bases.ask(lambda pictures: -torch.ones_like(pictures[:, :1]), SIZE) == 1
    assert bool(bases.seen[:, 2, MAP // 2, MAP // 2].all())
    # a better network takes it back
    bases.ask(lambda pictures: torch.ones_like(pictures[:, :1]), SIZE)
    assert not bases.seen.any()


def test_the_network_learns(bases):
    shape = OcclusionShape(size=SIZE, widths=(8, 8, 12, 12))
    learner = Learner(shape, Recipe(batch=8, warm_up=2, rate=5e-3), CPU)
    batch = learner.draw(bases)
    losses = [float(learner.learn(batch, 0.2)) for _ in range(30)]
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])


def test_a_run_leaves_a_network_scores_and_a_picture(data, nets, tmp_path):
    folders = [f"--data={data}", f"--nets={nets}", f"--out={tmp_path}"]
    main([*folders, "--steps=1", "--batch=2", "--limit=2", "--device=cpu"])
    notes = json.loads((tmp_path / "occlusion.json").read_text())
    assert set(NAMES) < set(notes["scores"])
    assert (tmp_path / "sheet.jpg").stat().st_size
    assert restored(tmp_path / "occlusion.pt")(torch.zeros(1, 3, 128, 128)).shape[1] == 1
    main([f"--export={tmp_path / 'occlusion.pt'}", f"--out={tmp_path / 'occlusion.onnx'}"])
    assert (tmp_path / "occlusion.onnx").stat().st_size < 1.2e6
