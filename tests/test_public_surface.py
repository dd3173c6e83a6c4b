"""The public surface: what mien offers, what importing it costs, and its tree of errors."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys

import pytest

import mien
from mien import errors

HEAVY = {"torch", "onnxruntime", "numpy", "PIL", "cryptography", "c2pa"}
PUBLIC = [
    *(
        "Card",
        "Cast",
        "Catalogue",
        "ClipSettings",
        "Crops",
        "Faces",
        "Frame",
        "Identity",
        "Observer",
        "Policy",
        "Result",
        "Role",
    ),
    *("Settings", "Sighting", "Swapped", "Swapper", "VideoReport", "__version__", "errors"),
]


def loaded_by(code):
    """Return the top names of the modules that are loaded after ``code`` in a new interpreter."""
    code += (
        "\nimport json; print('\\n' + json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import sys\n" + code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_surface_is_this_and_sorted():
    assert mien.__all__ == PUBLIC
    assert mien.__all__ == sorted(mien.__all__)
    assert dir(mien) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_can_be_imported(name):
    value = getattr(mien, name)
    assert value is not None
    if inspect.isclass(value):
        assert value.__name__ == name
        assert value.__doc__


def test_a_star_brings_every_name():
    space = {}
    exec("from mien import *", space)
    assert set(PUBLIC) <= set(space)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'mien' has no attribute 'Swaper'"):
        _ = mien.Swaper


def test_importing_mien_is_cheap():
    loaded = loaded_by("import mien, mien.errors")
    assert "mien" in loaded
    assert loaded & (HEAVY | {"rich", "typer"}) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["--help"], ["swap", "--help"], ["faces", "-h"], ["models", "--help"]),
        *(["doctor", "-h"], ["evaluate", "-h"], ["train", "-h"], ["train", "swap", "-h"]),
        *(
            ["bench", "-h"],
            ["consent", "-h"],
            ["consent", "grant", "-h"],
            ["audit", "verify", "-h"],
            ["verify", "-h"],
        ),
    ],
)
def test_help_is_cheap(arguments):
    code = f"from mien.cli.app import run\nassert run({arguments!r}) == 0"
    assert loaded_by(code) & HEAVY == set()


def test_listing_models_needs_no_network():
    code = "from mien.cli.app import run\nassert run(['models']) == 0"
    assert loaded_by(code) & HEAVY == set()


# Errors


def tree():
    """Return the parent of every class in the drawing at the top of ``mien.errors``."""
    parents, way = {}, []
    for line in errors.__doc__.splitlines():
        drawn = re.match(r"([│├└─ ]*)([A-Z]\w+)( {2,}\S.*)?$", line)
        if drawn and (way or drawn[1] == ""):
            depth = len(drawn[1]) // 4
            way[depth:] = [drawn[2]]
            parents[drawn[2]] = way[depth - 1] if depth else None
    return parents


def classes():
    found = inspect.getmembers(errors, inspect.isclass)
    return {name: kind for name, kind in found if kind.__module__ == errors.__name__}


def test_the_drawing_has_every_error_under_its_base():
    bases = {name: kind.__bases__[0].__name__ for name, kind in classes().items()}
    assert bases.pop("MienError") == "Exception"
    drawn = tree()
    assert drawn.pop("MienError") is None
    assert drawn == bases


@pytest.mark.parametrize("name", sorted(classes()))
def test_every_error_is_a_mien_error_with_an_explanation(name):
    kind = classes()[name]
    assert issubclass(kind, errors.MienError)
    assert kind.__doc__


def test_an_invalid_option_is_a_value_error_too():
    assert issubclass(errors.InvalidOption, ValueError)
    error = errors.InvalidOption("blend", "glue", ("alpha", "poisson"))
    assert str(error) == "blend='glue' is not possible. Allowed: alpha, poisson."
