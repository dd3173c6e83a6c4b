import torch

from mien.train.disturbance import Disturbance, disturbed, drawn
from mien.train.geometry import views

STRAIGHT = views(torch.zeros(2), torch.ones(2), torch.zeros(2, 2), torch.ones(2))


def nothing(**changes):
    flat = torch.zeros(2, 1, 1, 1)
    base = {
        "view": STRAIGHT,
        "light": flat,
        "contrast": flat + 1,
        "grey": flat,
        "soft": flat,
        "hole": torch.tensor([[0.5, 0.5, 0.5, 0.5]] * 2),
    }
    return Disturbance(**(base | changes))


def noise():
    return torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_nothing_changes_nothing():
    assert torch.equal(disturbed(noise(), nothing()), noise())


def test_each_does_what_it_says():
    x, one = noise(), torch.ones(2, 1, 1, 1)
    grey = disturbed(x, nothing(grey=one))
    torch.testing.assert_close(grey, x.mean(dim=1, keepdim=True).expand_as(x))
    torch.testing.assert_close(disturbed(x, nothing(light=one / 5)), x + 0.2)
    torch.testing.assert_close(disturbed(x, nothing(contrast=one / 2)), x / 2)
    soft = disturbed(x, nothing(soft=one))
    assert float((soft[..., 1:] - soft[..., :-1]).abs().mean()) < 0.5 * float(
        (x[..., 1:] - x[..., :-1]).abs().mean()
    )


def test_a_hole_covers_its_rectangle_and_nothing_else():
    x = noise()
    covered = disturbed(x, nothing(hole=torch.tensor([[-1.0, -0.5, 0.0, 0.5]] * 2)))
    assert float(covered[:, :, 2:6, :4].abs().max()) == 0
    kept = torch.ones(8, 8, dtype=torch.bool)
    kept[2:6, :4] = False
    assert torch.equal(covered[..., kept], x[..., kept])


def test_as_many_as_wanted_are_disturbed_and_holes_lie_inside():
    many = views(torch.zeros(4000), torch.ones(4000), torch.zeros(4000, 2), torch.ones(4000))
    by = drawn(many, 0.3, torch.Generator().manual_seed(0))
    size = by.hole[:, 2:] - by.hole[:, :2]
    holes = (size > 0).all(dim=1)
    for share in (by.grey.mean(), by.soft.mean(), holes.float().mean()):
        assert abs(float(share) - 0.3) < 0.03
    assert float(by.hole.abs().max()) <= 1 + 1e-6
    assert float(size[holes].min()) >= 0.4 - 1e-6
    assert float(size.max()) <= 0.9
    assert not (by.grey.flatten() * by.soft.flatten()).eq(by.grey.flatten()).all()
