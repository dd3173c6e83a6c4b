import errno

import numpy as np
import pytest
import torch
from imagecodecs import webp_encode
from PIL import Image, ImageFilter

from mien.errors import InvalidOption, NoFace
from mien.geometry import cut, fit_similarity, template
from mien.media import read_picture
from mien.train.build import Builder, Demands, Tally, sharpness
from mien.train.geometry import box, real
from mien.train.packs import decoder, names, read_packs

CPU = torch.device("cpu")


def save(image, path, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def brightened(image, by):
    return image.point(lambda value: min(255, round(value * by)))


@pytest.fixture
def faces(load):
    """Return a portrait by name as an image."""
    return lambda name: Image.fromarray(load(name))


@pytest.fixture
def pictures(tmp_path):
    return tmp_path / "pictures"


def packed(path, size=256):
    return read_packs([path], size, CPU)


def matrix_of(find, pixels, size=256):
    return fit_similarity(find(pixels).points[0], template("arcface_128").at(size))[None]


def test_crops_are_those_that_geometry_cuts(tmp_path, pictures, faces, find):
    file = save(faces("ada"), pictures / "ada" / "one.png")
    tally = Builder(Demands()).build(pictures, tmp_path / "pack")
    assert tally == Tally(pictures=1, packed=1)
    pixels = read_picture(file).frame.view
    crop = cut(pixels, matrix_of(find, pixels), 256)[0]
    wanted = crop.mul(255).round().byte().permute(1, 2, 0).contiguous().numpy()
    pack = packed(tmp_path / "pack")
    assert pack.native.tolist() == [256]
    assert np.array_equal(
        pack.pixels[0].permute(1, 2, 0), decoder()(webp_encode(wanted, 90, lossless=False))
    )


@pytest.mark.parametrize("turn", [0, 25])
@pytest.mark.parametrize("edge", [None, "left", "top"])
def test_beyond_the_quad_there_is_padding(tmp_path, pictures, faces, find, turn, edge):
    image = faces("mei").rotate(turn, Image.Resampling.BICUBIC)
    left, top, _, _ = find(torch.from_numpy(np.array(image))).boxes[0].tolist()
    whole = (0, 0, 640, 640)
    near = {None: whole, "left": (left, 0, 640, 640), "top": (0, top - 9, 640, 640)}[edge]
    file = save(image.crop(tuple(map(round, near))), pictures / "mei.png")
    Builder(Demands()).build(pictures, tmp_path / "pack")
    pack = packed(tmp_path / "pack")
    said = real(pack.quads / 128 - 1, box(0, 0, 1, 1, pack.quads), 256, margin=0)[0, 0]
    # the same crop of a white sheet of the picture's size on a black table
    pixels = read_picture(file).frame.view
    height, width = pixels.shape[:2]
    table = torch.zeros(height + 1000, width + 1000, 3, dtype=torch.uint8)
    table[500:-500, 500:-500] = 255
    matrix = matrix_of(find, pixels)
    moved = matrix.clone()
    moved[..., 2] -= 500 * matrix[..., :2].sum(dim=-1)
    seen = cut(table, moved, 256)[0, 0] > 0.5
    # half a pixel off would be a hundred, along one edge
    assert int((said.bool() != seen).sum()) <= 16
    if edge is None:
        assert bool(seen.all()) == (turn == 0)
    else:
        assert 0.5 < float(seen.float().mean()) < 0.97


def test_a_folder_is_a_person(tmp_path, pictures, faces):
    for name in ("a/ada", "a/ben", "b/c/dev", "b/eva", "mei"):
        save(faces(name.split("/")[-1]), pictures / f"{name}.png")
    Builder(Demands()).build(pictures, tmp_path / "folders", first_person=5)
    Builder(Demands()).build(pictures, tmp_path / "each", first_person=5, by_folder=False)
    # in the order of their names: those of a folder, then those of the folders in it
    assert packed(tmp_path / "folders", 64).people.tolist() == [5, 6, 6, 7, 8]
    assert packed(tmp_path / "each", 64).people.tolist() == [5, 6, 7, 8, 9]
    assert names(tmp_path) == [tmp_path / "each", tmp_path / "folders"]


def test_what_is_left_out_is_counted(tmp_path, pictures, faces):
    ada, ben = faces("ada"), faces("ben")
    first = save(ada, pictures / "ada" / "0.jpg", quality=95)
    (pictures / "ada" / "1_same_bytes.jpg").write_bytes(first.read_bytes())
    save(ada, pictures / "ada" / "2_coded_again.jpg", quality=60)
    (pictures / "ada" / "3_broken.jpg").write_bytes(first.read_bytes()[:300])
    (pictures / "ada" / "4_empty.png").touch()
    save(Image.linear_gradient("L").resize((300, 300)), pictures / "ada" / "5_nobody.png")
    both = Image.new("RGB", (1280, 640))
    both.paste(ada)
    both.paste(ben, (640, 0))
    save(both, pictures / "ada" / "6_two.png")
    far = Image.new("RGB", (640, 640), (90, 110, 130))
    far.paste(ben.resize((110, 110)), (300, 200))
    save(far, pictures / "ben" / "7_far.png")
    save(ben.filter(ImageFilter.GaussianBlur(6)), pictures / "ben" / "8_blurred.png")
    save(ben, pictures / "ben" / "9.png")
    save(ben, pictures / "ben" / "A_coded.jpg", quality=60)
    (pictures / "ben" / "list.txt").write_text("not a picture")
    tally = Builder(Demands(sharpness=1.5)).build(pictures, tmp_path / "pack")
    assert tally == Tally(
        pictures=11, packed=2, unreadable=2, no_face=1, several=1, small=1, soft=1, double=3
    )
    assert packed(tmp_path / "pack", 64).people.tolist() == [0, 1]
    assert str(tally) == (
        "11 pictures, 2 packed, 2 unreadable, 1 no face, 1 several, 1 small, 1 soft, 3 double"
    )


def test_demands_can_be_less(tmp_path, pictures, faces):
    both = Image.new("RGB", (1280, 640))
    both.paste(faces("ada"))
    both.paste(faces("ben").resize((500, 500)), (700, 50))
    save(both, pictures / "two.png")
    far = Image.new("RGB", (640, 640), (90, 110, 130))
    far.paste(faces("eva").resize((110, 110)), (300, 200))
    save(far, pictures / "far.png")
    demands = Demands(size=128, one_person=False, enlarged=3)
    tally = Builder(demands).build(pictures, tmp_path / "pack", by_folder=False)
    assert (tally.packed, tally.pictures) == (2, 2)
    assert packed(tmp_path / "pack", 128).native.tolist() == [128, 128]


def test_doubles_are_left_out_of_a_person_and_bytes_of_everybody(tmp_path, pictures, faces):
    first = save(faces("ada"), pictures / "a" / "ada.jpg", quality=95)
    (pictures / "b").mkdir()
    (pictures / "b" / "ada.jpg").write_bytes(first.read_bytes())
    save(faces("ada"), pictures / "b" / "coded_again.jpg", quality=60)
    builder = Builder(Demands())
    assert builder.build(pictures, tmp_path / "one") == Tally(pictures=3, packed=2, double=1)
    # another pack of the same builder has none of its pictures
    save(faces("eva"), pictures / "c" / "eva.png")
    assert builder.build(pictures, tmp_path / "two") == Tally(pictures=4, packed=1, double=3)


def test_sharpness_is_that_of_single_pixels():
    board = torch.zeros(1, 3, 64, 64)
    board[..., ::2, ::2] = board[..., 1::2, 1::2] = 1
    assert sharpness(board) == pytest.approx(4 * 255)
    assert sharpness(torch.full_like(board, 0.3)) == pytest.approx(0, abs=1e-3)


# What cannot be done leaves nothing behind


def test_a_folder_without_pictures_is_refused(tmp_path, pictures):
    pictures.mkdir()
    (tmp_path / "file").write_text("x")
    builder = Builder(Demands())
    for folder in (pictures, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(InvalidOption, match=r"a folder (of|with) pictures"):
            builder.build(folder, tmp_path / "pack")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pictures"]


def test_a_pack_of_nobody_is_not_written(tmp_path, pictures, faces):
    save(Image.new("RGB", (200, 200)), pictures / "nobody.png")
    with pytest.raises(NoFace, match=r"no pack was written: 1 pictures, 1 no face\."):
        Builder(Demands()).build(pictures, tmp_path / "pack")
    assert list(tmp_path.iterdir()) == [pictures]


@pytest.mark.parametrize("name", ["pictures", "file/pack", "pack.bin"])
def test_a_place_for_no_pack_is_refused(tmp_path, pictures, faces, name):
    save(faces("ada").resize((320, 320)), pictures / "ada.png")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidOption, match="out="):
        Builder(Demands()).build(pictures, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pictures"]


def stored(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


class Broken(Exception):
    pass


def full(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("when", ["finding", "writing"])
def test_a_build_that_fails_leaves_what_was_there(
    tmp_path, pictures, faces, monkeypatch, old, when
):
    builder = Builder(Demands())
    save(faces("ada"), pictures / "ada.png")
    if old:
        builder.build(pictures, tmp_path / "packs" / "pack")
    before = stored(tmp_path / "packs") if old else {}
    save(faces("ben"), pictures / "ben.png")
    save(faces("eva"), pictures / "eva.png")
    if when == "finding":
        find, calls = builder._find, []

        def fails(pixels):
            calls.append(pixels)
            if len(calls) == 2:
                raise Broken
            return find(pixels)

        monkeypatch.setattr(builder, "_find", fails)
        error = Broken
    else:
        monkeypatch.setattr("mien.train.packs.np.save", full)
        error = InvalidOption
    with pytest.raises(error):
        builder.build(pictures, tmp_path / "packs" / "pack")
    assert stored(tmp_path / "packs") == before
    assert all(path.is_file() for path in (tmp_path / "packs").iterdir())


def test_a_pack_takes_the_place_of_one_of_its_name(tmp_path, pictures, faces):
    save(faces("ada"), pictures / "ada.png")
    for first in (3, 7):
        Builder(Demands()).build(pictures, tmp_path / "pack", first_person=first)
    assert packed(tmp_path / "pack", 64).people.tolist() == [7]
    suffixes = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert suffixes == {"pack.bin", "pack.off.npy", "pack.pid.npy", "pack.quad.npy"}


# Age


def age_network(path, *, side=224, years=100):
    """A network to which a picture's mean brightness in percent is the person's age."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node
    graph = helper.make_graph(
        [
            node("ReduceMean", ["pixels"], ["colour"], axes=[1, 2], keepdims=0),
            node("ReduceMean", ["colour"], ["bright"], axes=[1], keepdims=1),
            node("Mul", ["bright", "percent"], ["age"]),
            node("Sub", ["years", "age"], ["apart"]),
            node("Mul", ["apart", "apart"], ["square"]),
            node("Neg", ["square"], ["near"]),
            node("Softmax", ["near"], ["chances"], axis=1),
        ],
        "age",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [None, side, side, 3])],
        [
            helper.make_tensor_value_info("bright", TensorProto.FLOAT, [None, 1]),
            helper.make_tensor_value_info("chances", TensorProto.FLOAT, [None, years]),
        ],
        [
            numpy_helper.from_array(np.float32([100 / 255]), "percent"),
            numpy_helper.from_array(np.arange(years, dtype=np.float32)[None], "years"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def older(tmp_path):
    return Builder(Demands(), age_network(tmp_path / "age.onnx"))


@pytest.mark.parametrize("roll", [0.0, 0.6, 2.0, 3.1])
def test_age_is_that_of_a_loose_upright_square(older, roll):
    eyes, middle = 40.0, torch.tensor([300.0, 280.0])
    points = template("arcface_112_v2").at(112)
    points = (points - points.mean(dim=0)) * (eyes / (points[1] - points[0]).norm())
    turn = torch.tensor([[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]])
    points = points @ turn.float().T + middle
    y, x = torch.meshgrid(torch.arange(600.0), torch.arange(600.0), indexing="ij")
    own = (torch.stack([x, y], dim=-1) - middle) @ turn.float()

    def square(reach):
        white = (own.abs().amax(dim=-1) < reach * eyes).byte() * 255
        return white[..., None].expand(-1, -1, 3).contiguous()

    assert older.age(square(2.45), points) == pytest.approx(99, abs=0.5)
    assert older.age(square(2.4 * 0.6), points) == pytest.approx(36, abs=1)


def test_the_young_are_left_out(tmp_path, pictures, faces, older, find):
    for name, by in (("ada", 0.25), ("ben", 1.0)):
        save(brightened(faces(name), by), pictures / f"{name}.png")
    assert older.build(pictures, tmp_path / "pack") == Tally(pictures=2, packed=1, young=1)


def test_an_age_that_is_no_number_is_no_adults(tmp_path, pictures, faces, older, monkeypatch):
    save(faces("ada"), pictures / "ada.png")
    monkeypatch.setattr(older, "age", lambda pixels, points: float("nan"))
    with pytest.raises(NoFace, match="1 young"):
        older.build(pictures, tmp_path / "pack")


def test_what_is_no_age_network_is_refused(tmp_path):
    (tmp_path / "text.onnx").write_text("x")
    age_network(tmp_path / "small.onnx", side=112)
    age_network(tmp_path / "few.onnx", years=8)
    for name in ("missing.onnx", "text.onnx", "small.onnx", "few.onnx", "."):
        with pytest.raises(InvalidOption, match="age="):
            Builder(Demands(), tmp_path / name)
