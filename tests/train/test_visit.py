import json
from dataclasses import replace

import pytest
import torch

from mien.nets.swapper import Swapper
from mien.train import schedule, state
from mien.train.bank import Bank, Pool, source_chances
from mien.train.deliver import deliver
from mien.train.faces import Watchers
from mien.train.journal import Journal
from mien.train.loop import Trainer
from mien.train.packs import names, read_packs
from mien.train.plot import plot, read_log
from mien.train.recipe import Recipe, changed, from_table
from mien.train.schedule import Visit
from mien.train.visit import Order, _Run, run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def watchers(nets):
    return Watchers.read(nets, CPU)


@pytest.fixture
def bank(data, recipe, watchers):
    training = [path for path in names(data) if path.name != "heldout"]
    return Bank(read_packs(training, 64, CPU), recipe, watchers)


def test_a_step_draws_the_same_rows_whenever_it_is_taken(bank):
    first, again, other = (bank.draw(step, triplets=True) for step in (5, 5, 6))
    assert torch.equal(first.truth, again.truth)
    assert not torch.equal(first.truth, other.truth)
    assert (first.same, first.triplets, first.labelled) == (1, 2, 3)
    assert first.truth.shape == (6, 3, 64, 64)
    assert len(first.other) == 2


def test_padding_of_cut_pictures_is_marked(bank):
    whole, cut, small = (p.rows.tolist() for p in (bank._whole, bank._cut, bank._small))
    assert (whole, cut, small) == ([0, 1], [2, 3], [4, 5, 6, 7])


def test_partners_show_the_same_person_in_another_picture(bank):
    rows, partners = bank._pairs(50, torch.Generator().manual_seed(0))
    people = torch.tensor([0, 1, 2, 3, 10, 10, 11, 11])
    assert torch.equal(people[rows], people[partners])
    assert not (rows == partners).any()


def test_outputs_in_padding_are_the_targets_own(bank, recipe, watchers):
    trainer = Trainer(recipe, watchers, CPU)
    batch = bank.draw(0, triplets=False)
    out = trainer.swapper(batch.truth, batch.source).detach().requires_grad_()
    shown = out * batch.valid + batch.truth * (1 - batch.valid)
    torch.stack(list(trainer.terms(batch, shown, bank, 1.0).values())).sum().backward()
    padding = batch.valid.expand_as(out) == 0
    assert padding.any()
    assert float(out.grad[padding].abs().max()) == 0
    assert all(p.grad is None for p in trainer.critics.parameters())


def order(data, nets, tmp_path, **changes):
    base = Order(data=data, nets=nets, out=tmp_path / "out", device="cpu", steps=2, start=0.4)
    return replace(base, **changes)


def test_a_visit_trains_scores_and_delivers(data, nets, tmp_path, recipe):
    scores = run(order(data, nets, tmp_path, stop=1.0), recipe)
    assert set(scores) >= {"cosine", "top1", "leak", "mesh", "gaze", "sharpness", "colour"}
    out = tmp_path / "out"
    assert (out / "grid.jpg").stat().st_size > 1000
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"pulls", "step", "scores"}
    assert "<polyline" in plot(read_log(out / "log.jsonl"))
    size, apart = deliver(out, tmp_path / "net.onnx", int8=False)
    assert apart < 1e-3
    assert size == (tmp_path / "net.onnx").stat().st_size


def weights(folder, recipe):
    stored = torch.load(folder / state.WHOLE, weights_only=True)
    swapper = Swapper(recipe.swapper)
    swapper.load_state_dict(stored["swapper"])
    return stored["notes"], torch.cat([p.detach().flatten() for p in swapper.parameters()])


def test_two_visits_are_one(data, nets, tmp_path, recipe):
    small = from_table(recipe.table() | {"phases": {"decay": 0.0, "triplets": 0.6}})
    whole = order(data, nets, tmp_path, keep=tmp_path / "a", stop=0.8, steps=4)
    run(whole, small)
    first = order(data, nets, tmp_path, keep=tmp_path / "b", stop=0.6, steps=2)
    run(first, small)
    run(replace(first, start=None, stop=0.8), small)
    (notes_a, a), (notes_b, b) = (weights(tmp_path / name, small) for name in "ab")
    assert notes_a["step"] == notes_b["step"] == 4
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_run_goes_on_from_a_delivered_network(data, nets, tmp_path, recipe):
    run(order(data, nets, tmp_path, steps=1), recipe)
    deliver(tmp_path / "out", tmp_path / "net.onnx", int8=False)
    still = from_table(recipe.table() | {"rate": 0.0})
    again = order(data, nets, tmp_path, out=tmp_path / "b", begin=tmp_path / "net.onnx", steps=1)
    run(again, still)
    a, b = (state.averaged(tmp_path / name)[0] for name in ("out", "b"))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-3, atol=1e-4)


def test_a_pupil_learns_from_a_larger_teacher(nets, data, recipe, watchers):
    teacher = Swapper(replace(recipe.swapper, size=96)).eval().requires_grad_(False)
    training = [path for path in names(data) if path.name != "heldout"]
    bank = Bank(read_packs(training, 96, CPU), recipe, watchers)
    trainer = Trainer(recipe, watchers, CPU, teacher=teacher)
    batch, given = trainer.lesson(bank, triplets=True)
    for picture in (batch.truth, batch.wanted, given):
        assert picture.shape == (6, 3, 64, 64)
    assert set(batch.valid.unique().tolist()) <= {0.0, 1.0}
    first = trainer.learn(bank, 0.0)["teacher"]
    for _ in range(30):
        last = trainer.learn(bank, 0.0)["teacher"]
    assert float(last) < 0.8 * float(first)


def test_the_teacher_becomes_what_its_own_run_has_come_to(
    nets, data, recipe, watchers, bank, tmp_path
):
    pupil = Trainer(recipe, watchers, CPU, teacher=Swapper(recipe.swapper).eval())
    old, other = pupil.teacher, Trainer(replace(recipe, seed=1), watchers, CPU)
    visit = Visit(0.0, 1.0, steps=1)
    to_follow = order(data, nets, tmp_path, follow=tmp_path / "other")
    here = _Run(to_follow, recipe, Journal(tmp_path / "log", 0), bank, pupil, None, visit, {})
    before = [p.clone() for p in old.parameters()]
    here.follow()  # nothing is there yet
    assert all(map(torch.equal, before, old.parameters()))
    state.save_compact(other, tmp_path / "other", {"progress": 0.5})
    here.follow()
    for made, wanted in zip(old.parameters(), other.average.parameters(), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-3, atol=1e-4)
    (tmp_path / "other" / "state.0").write_bytes(b"of another state")
    here.follow()
    torch.testing.assert_close(made, wanted, rtol=1e-3, atol=1e-4)


def test_rare_tones_are_drawn_oftener_and_spectacles_seldom(monkeypatch, recipe):
    pixels = torch.zeros(8, 3, 64, 64, dtype=torch.uint8)
    tones = torch.tensor([50.0] * 6 + [0.0, float("nan")])
    worn = torch.tensor([9.0] + [-9.0] * 7)
    monkeypatch.setattr("mien.train.bank.tone", lambda part: tones)
    monkeypatch.setattr("mien.train.bank.glasses", lambda part: worn)
    chances = source_chances(pixels, replace(recipe, balance=1.0, spectacles=0.25))
    torch.testing.assert_close(chances[6] / chances[1], torch.tensor(6.0))
    torch.testing.assert_close(chances[0] / chances[1], torch.tensor(0.25))
    assert float(chances[1]) < float(chances[7]) < float(chances[6])
    drawn = Pool(torch.arange(8), chances).pick(20_000, torch.Generator().manual_seed(0))
    shares = drawn.bincount(minlength=8) / 20_000
    torch.testing.assert_close(shares, chances / chances.sum(), atol=0.02, rtol=0.1)


def test_the_compact_state_is_near_and_in_pieces(tmp_path, recipe, watchers, bank, monkeypatch):
    monkeypatch.setattr(state, "PIECE", 20_000)
    trainer, other = (Trainer(recipe, watchers, CPU) for _ in range(2))
    for _ in range(3):
        trainer.learn(bank, 0.5)
    state.save_compact(trainer, tmp_path, {"progress": 0.5})
    assert len(list(tmp_path.glob("state.[0-9]*"))) > 1
    assert state.load(other, [tmp_path])["progress"] == 0.5
    assert other.step == 3
    pairs = zip(trainer.swapper.parameters(), other.swapper.parameters(), strict=True)
    assert max(float((a - b).detach().abs().max()) for a, b in pairs) < 1e-3
    (tmp_path / "state.0").write_bytes(b"x")
    with pytest.raises(ValueError, match="damaged"):
        state.load(other, [tmp_path])


def test_a_step_that_is_not_finite_is_left_out(recipe, watchers, bank):
    trainer = Trainer(recipe, watchers, CPU)
    before = [p.detach().clone() for p in trainer.swapper.parameters()]
    bank.sface[...] = float("nan")
    parts = trainer.learn(bank, 0.0)
    assert float(parts["skipped"]) == 1
    assert all(map(torch.equal, before, trainer.swapper.parameters()))


def test_progress_by_time_and_by_steps():
    now = [100.0]
    visit = Visit(0.2, 0.6, seconds=10, clock=lambda: now[0])
    now[0] = 105.0
    assert visit.progress == pytest.approx(0.4)
    now[0] = 200.0
    assert visit.share == 1
    steps = Visit(0.0, 1.0, steps=4)
    steps.done = 1
    assert steps.progress == 0.25
    with pytest.raises(ValueError, match="by seconds or by steps"):
        Visit(0.0, 1.0)


def test_rates_rise_and_fall():
    recipe = Recipe()
    assert schedule.rate(recipe, 0.3, 10_000) == pytest.approx(1)
    assert schedule.rate(recipe, 0.3, 0) == pytest.approx(1 / recipe.warm_up)
    assert schedule.rate(recipe, 1.0, 10_000) == pytest.approx(recipe.final)
    assert schedule.adversarial(recipe, 0.0) == 0
    assert schedule.adversarial(recipe, 1.0) == 1


def test_recipes_are_read_strictly():
    assert from_table(Recipe().table()) == Recipe()
    recipe = changed(Recipe(), ["batch=8", "weights.mesh=2.5", "network=mien-lite"])
    assert (recipe.batch, recipe.weights.mesh, recipe.swapper.size) == (8, 2.5, 160)
    with pytest.raises(ValueError, match="no weigths"):
        from_table({"weigths": {}})
    with pytest.raises(ValueError, match="unknown"):
        from_table({"network": "mien-9000"})
