import pytest
import torch

from mien.stages.mask import face_mask as pasted_with
from mien.train import losses
from mien.train.faces import LEFT_EYE, OVAL, face_mask, shown
from mien.train.geometry import box, composed, distance_inside, looked, places, real, views

ONES = torch.ones(2)


def halves():
    """A valid area: the left half of 32 x 32."""
    valid = torch.zeros(2, 1, 32, 32)
    valid[..., :16] = 1
    return valid


@pytest.mark.parametrize(
    "loss",
    [
        losses.colour,
        lambda out, truth, valid: losses.context(out, truth, valid, torch.zeros_like(valid)),
        lambda out, truth, valid: losses.reconstruction(
            out, truth, valid, ONES, torch.ones(1, 1, 32, 32)
        ),
    ],
    ids=["colour", "context", "reconstruction"],
)
def test_padding_is_left_out(loss):
    out = torch.zeros(2, 3, 32, 32, requires_grad=True)
    value = loss(out, torch.full_like(out, 0.5), halves())
    value.backward()
    assert float(value.detach()) == pytest.approx(0.5, abs=1e-5)
    assert float(out.grad[..., 16:].abs().max()) == 0
    assert float(out.grad[..., :16].abs().min()) > 0


def test_small_pictures_are_right_only_coarsely():
    # a checkerboard of single pixels is gone after averaging over two by two
    out = torch.zeros(1, 3, 32, 32)
    out[..., ::2, ::2] = out[..., 1::2, 1::2] = 1
    truth = torch.full_like(out, 0.5)
    valid, weight = torch.ones(1, 1, 32, 32), torch.ones(1, 1, 32, 32)
    fine = losses.reconstruction(out, truth, valid, torch.ones(1), weight)
    coarse = losses.reconstruction(out, truth, valid, torch.zeros(1), weight)
    assert float(fine) == pytest.approx(0.5 / 4)
    assert float(coarse) == pytest.approx(0)


def test_hinge_by_hand():
    real, fake = torch.tensor([2.0, 0.0]), torch.tensor([-3.0, 0.5])
    real, fake = real.view(2, 1, 1, 1), fake.view(2, 1, 1, 1)
    where = torch.ones(2, 1, 1, 1)
    # real: 0 and 1; fake: 0 and 1.5
    assert float(losses.hinge_discriminator(real, fake, where)) == pytest.approx(1.25)
    assert float(losses.hinge_generator(fake, where)) == pytest.approx(1.25)
    where[1] = 0
    assert float(losses.hinge_discriminator(real, fake, where)) == pytest.approx(0)


def test_features_count_shallow_layers_only_where_asked():
    made, wanted = [torch.zeros(2, 1, 4, 4)] * 3, [torch.ones(2, 1, 4, 4)] * 3
    valid = torch.ones(2, 1, 32, 32)
    everything = losses.features(made, wanted, valid, ONES, ONES)
    deep = losses.features(made, wanted, valid, ONES, torch.zeros(2))
    assert float(everything) == pytest.approx(1)
    assert float(deep) == pytest.approx(2 / 3)


def test_identity_by_hand():
    a, b = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert float(losses.identity(a, b)) == pytest.approx(0.5)


def some_mesh():
    random = torch.Generator().manual_seed(0)
    mesh = torch.rand(1, 468, 2, generator=random) * 0.2
    mesh[:, 33], mesh[:, 263] = torch.tensor([-0.4, 0.0]), torch.tensor([0.4, 0.0])
    return mesh


def test_the_mesh_loss_ignores_where_the_face_is_and_how_large():
    mesh = some_mesh()
    assert float(losses.mesh_shape(mesh * 1.5 + 0.1, mesh)) == pytest.approx(0, abs=1e-6)


def test_gaze_sees_irises_move_and_not_their_colour():
    mesh = torch.zeros(1, 468, 2)
    angle = torch.arange(16) * (2 * torch.pi / 16) + torch.pi
    for x, y, lids in losses.EYES:
        ring = torch.stack([angle.cos() * 0.16, angle.sin() * 0.1], dim=1)
        mesh[0, lids] = ring + torch.tensor([2 * x - 1, 2 * y - 1])

    def eyes(shift, dark):
        picture = torch.ones(1, 3, 128, 128)
        for x, y, _ in losses.EYES:
            at = places(box(0, 0, 1, 1, picture), 128, 128)
            centre = torch.tensor([2 * x - 1 + shift, 2 * y - 1])
            picture[:, :, ((at - centre).norm(dim=3) < 0.06)[0]] = dark
        return picture

    ahead = eyes(0.0, -0.8)
    assert float(losses.gaze(eyes(0.0, -0.3), ahead, mesh)) < 0.02
    assert float(losses.gaze(eyes(0.08, -0.8), ahead, mesh)) > 0.4
    blue = eyes(0.0, torch.tensor([-0.8, -0.8, 0.2])[:, None])
    assert float(losses.irises(ahead, ahead, mesh)) == 0
    assert 0.05 < float(losses.irises(blue, ahead, mesh)) < 0.5
    elsewhere = ahead.clone()
    elsewhere[:, :, 70:] = -1
    assert float(losses.irises(elsewhere, ahead, mesh)) == 0


def test_rims_cost_what_they_add_and_can_be_learned_away():
    smooth = torch.linspace(-0.2, 0.4, 128).expand(1, 3, 128, 128).clone()
    smooth += torch.sin(torch.arange(128.0) / 3)[:, None] * 0.02
    wearing = smooth.clone()
    for x in (45, 83):  # two rings and a bridge
        at = torch.stack(torch.meshgrid(torch.arange(128.0), torch.arange(128.0), indexing="ij"))
        ring = (at - torch.tensor([58.0, x])[:, None, None]).norm(dim=0)
        wearing[:, :, (ring > 13) & (ring < 15)] = -0.9
    wearing[:, :, 55:57, 58:70] = -0.9
    assert float(losses.rims(smooth, smooth)) == float(losses.rims(wearing, wearing)) == 0
    assert float(losses.rims(smooth, wearing)) == 0
    assert float(losses.rims(wearing, smooth)) > 2
    made = wearing.clone().requires_grad_()
    before = losses.rims(made, smooth)
    downhill = -torch.autograd.grad(before, made)[0].sign()
    assert float(losses.rims(wearing + 0.02 * downhill, smooth)) < float(before.detach())


def test_windows_lie_about_eyes_and_mouth():
    parts = losses.cut_windows(torch.zeros(2, 3, 256, 256))
    assert parts.shape == (6, 3, 64, 80)
    for (left, top, right, bottom), (x, y) in zip(losses.windows(256), losses.WINDOWS, strict=True):
        assert left < x * 256 < right
        assert top < y * 256 < bottom


def test_places_are_those_of_affine_grid():
    view = views(
        torch.tensor([0.3]), torch.tensor([1.2]), torch.tensor([[0.1, -0.2]]), torch.tensor([-1.0])
    )
    grid = torch.nn.functional.affine_grid(view, [1, 1, 6, 9], align_corners=False)
    torch.testing.assert_close(places(view, 6, 9), grid)


def test_views_are_composed_in_order():
    one = views(
        torch.tensor([0.5]), torch.tensor([0.7]), torch.tensor([[0.3, 0.0]]), torch.tensor([1.0])
    )
    two = box(0.1, 0.2, 0.8, 0.7, one)
    at = places(two, 5, 5)
    wanted = (one[0, :, :2] @ at[..., None])[..., 0] + one[0, :, 2]
    torch.testing.assert_close(places(composed(one, two), 5, 5), wanted)


def test_real_picture_moves_with_the_view():
    quads = torch.tensor([[[0.0, -2.0], [2.0, -2.0], [2.0, 2.0], [0.0, 2.0]]])
    straight = box(0, 0, 1, 1, quads)
    where = real(quads, straight, 16, margin=0)[0, 0]
    assert where[:, :8].sum() == 0
    assert where[:, 8:].all()
    mirrored = views(torch.zeros(1), torch.ones(1), torch.zeros(1, 2), -torch.ones(1))
    assert torch.equal(real(quads, mirrored, 16, margin=0)[0, 0], where.flip(1))
    # beyond the crop there is padding, whatever the quad says
    wide = views(torch.zeros(1), torch.full((1,), 2.0), torch.zeros(1, 2), torch.ones(1))
    assert int(real(quads * 9, wide, 16, margin=0).sum()) == 8 * 4


def test_a_look_without_change_changes_nothing():
    picture = torch.rand(1, 3, 16, 16)
    view = box(0, 0, 1, 1, picture)
    same = looked(picture, view, 16, mode="bicubic", padding="border")
    torch.testing.assert_close(same, picture, atol=1e-5, rtol=0)


def test_distance_inside_a_square():
    square = torch.tensor([[[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]])
    at = torch.tensor([[[[0.0, 0.0], [0.5, 0.0], [3.0, 0.0]]]])
    assert distance_inside(square, at).flatten().tolist() == [1.0, 0.5, -2.0]


def test_the_face_mask_is_inside_the_oval():
    mesh = torch.zeros(1, 468, 2)
    angle = torch.arange(len(OVAL)) * (2 * torch.pi / len(OVAL)) - torch.pi / 2
    mesh[0, OVAL] = torch.stack([angle.cos(), angle.sin()], dim=1) * 0.5
    mask = face_mask(mesh, 64)[0, 0]
    assert mask[32, 32] == 1
    assert mask[0, 0] == 0
    assert float(mask.mean()) == pytest.approx(torch.pi * 0.25 / 4, rel=0.05)
    assert len(set(LEFT_EYE)) == 16


def test_what_is_shown_is_what_is_pasted():
    mesh = torch.zeros(2, 468, 2)
    angle = torch.arange(36) * (2 * torch.pi / 36) - torch.pi / 2
    mesh[:, OVAL] = torch.stack([angle.cos() * 0.6, angle.sin() * 0.75], dim=1)
    mesh[1] *= 0.6
    mask = shown(mesh, 256)
    pasted = pasted_with((mesh + 1) * 128 - 0.5, 256)[:, None]
    assert float((mask - pasted).abs().max()) < 0.06
    assert float((mask - pasted).mean().abs()) < 0.005
