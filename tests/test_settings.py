"""Settings: five layers, where each value came from, and what is refused."""

from __future__ import annotations

import copy
import pickle
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from test_public_surface import HEAVY, loaded_by

from mien.errors import InvalidOption
from mien.settings import Settings, load

DEFAULTS = {
    "model": "mien-256",
    "detector": "yunet",
    "provider": "cpu",
    "allow_fallback": False,
    "threads": None,
    "gpu_memory": None,
    "models": None,
    "blend": "alpha",
    "color_match": True,
    "occlusion": True,
    "strength": 1.0,
    "max_distance": None,
    "quality": None,
    "subsampling": None,
    "label": None,
    "label_text": None,
    "label_place": None,
    "max_megapixels": 250.0,
    "cache_size": 100,
    "cache_folder": None,
    "ledger": None,
    "certificate": None,
    "private_key": None,
    "signing_pkcs11": None,
    "timestamp": None,
    "trust": None,
}


@pytest.fixture(autouse=True)
def user(tmp_path, monkeypatch):
    """The file of a user who lives in ``tmp_path``; it is not there yet."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setattr("mien.settings.user_config_path", lambda name, appauthor: folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return folder / "mien.toml"


@pytest.fixture
def project(tmp_path):
    """The file of a project; it is not there yet."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder / "mien.toml"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def refusal(*arguments, **options):
    with pytest.raises(InvalidOption) as caught:
        load(*arguments, **options)
    return str(caught.value)


# Layers


def test_without_anything_every_value_is_the_default(user, project):
    loaded = load(folder=project.parent, environment={})
    assert loaded.settings.model_dump() == DEFAULTS
    assert loaded.origins == dict.fromkeys(DEFAULTS, "default")
    assert loaded.files == {user: False, project: False}


def test_every_layer_beats_the_one_below_and_is_named(user, project):
    environment, flags = {}, {}

    def provider():
        loaded = load(flags, folder=project.parent, environment=environment)
        assert loaded.settings.threads == 3  # what a layer does not name stays
        assert loaded.origins["threads"] == str(user)
        return loaded.settings.provider, loaded.origins["provider"]

    write(user, 'threads = 3\nprovider = "cuda"')
    assert provider() == ("cuda", str(user))
    write(project, 'provider = "tensorrt"')
    assert provider() == ("tensorrt", str(project))
    environment["MIEN_PROVIDER"] = "openvino"
    assert provider() == ("openvino", "MIEN_PROVIDER")
    flags["provider"] = "coreml"
    assert provider() == ("coreml", "--provider")


def test_a_layer_may_go_back_to_the_default(user, project):
    write(user, "color_match = false")
    loaded = load({"color_match": True}, folder=project.parent, environment={})
    assert (loaded.settings.color_match, loaded.origins["color_match"]) == (True, "--color-match")


def test_flags_that_are_none_were_not_given(project):
    flags = {"threads": None, "color_match": False, "cache_size": 0, "max_distance": 0.5}
    loaded = load(flags, folder=project.parent, environment={"MIEN_THREADS": "2"})
    given = {key: origin for key, origin in loaded.origins.items() if origin != "default"}
    assert given == {
        "threads": "MIEN_THREADS",
        "color_match": "--no-color-match",
        "cache_size": "--cache-size",
        "max_distance": "--max-distance",
    }
    assert loaded.settings == Settings(threads=2, color_match=False, cache_size=0, max_distance=0.5)


def test_the_nearest_file_above_is_the_projects_and_the_only_one(project, monkeypatch):
    inner = project.parent / "a" / "b"
    inner.mkdir(parents=True)
    write(project, "threads = 1\nquality = 80")
    assert load(folder=inner, environment={}).settings.threads == 1
    near = write(project.parent / "a" / "mien.toml", "threads = 2")
    monkeypatch.chdir(inner)
    loaded = load(environment={})
    assert (loaded.settings.threads, loaded.settings.quality) == (2, None)
    assert list(loaded.files.items())[1:] == [(near, True)]


def test_every_key_can_be_set_in_a_file(project):
    words = {"model": "m", "detector": "d", "provider": "p", "blend": "poisson"}
    words |= {"gpu_memory": "4GB"}
    words |= {"timestamp": "https://time.example"}
    words |= {"label_text": "AI", "label_place": "top-left"}
    words |= {"signing_pkcs11": "pkcs11:object=a?module-path=/b.so"}
    paths = {"models": "cards", "cache_folder": "cache", "ledger": "consent.sqlite3"}
    paths |= {"certificate": "a.pem", "private_key": "b.pem", "trust": "c.pem"}
    others = """
        allow_fallback = true
        threads = 256
        color_match = false
        occlusion = false
        label = true
        strength = 0
        max_distance = 2
        quality = 100
        subsampling = "4:2:2"
        max_megapixels = 0.5
        cache_size = 0
    """
    texts = [f'{key} = "{text}"' for key, text in (words | paths).items()]
    write(project, "\n".join([*texts, others]))
    loaded = load(folder=project.parent, environment={})
    assert loaded.settings.model_dump() == (
        words | {key: project.parent / text for key, text in paths.items()} | tomllib.loads(others)
    )
    assert loaded.origins == dict.fromkeys(DEFAULTS, str(project))


def test_a_file_may_begin_with_a_byte_order_mark(project):
    project.write_bytes(b"\xef\xbb\xbfthreads = 2\r\n")
    assert load(folder=project.parent, environment={}).settings.threads == 2


# The environment


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("MIEN_MODEL", "1", "1"),
        ("MIEN_THREADS", "4", 4),
        ("MIEN_BLEND", "poisson", "poisson"),
        ("MIEN_STRENGTH", "0.25", 0.25),
        ("MIEN_MAX_DISTANCE", "1", 1.0),
        ("MIEN_MAX_MEGAPIXELS", "1e3", 1000.0),
        ("MIEN_LEDGER", "own.sqlite3", Path("own.sqlite3")),
        *(("MIEN_ALLOW_FALLBACK", text, True) for text in ("true", "1", "yes", "YES")),
        *(("MIEN_COLOR_MATCH", text, False) for text in ("false", "0", "no", "False")),
    ],
)
def test_a_variable_is_read_as_its_key_wants_it(project, key, text, value):
    loaded = load(folder=project.parent, environment={key: text})
    name = key.removeprefix("MIEN_").lower()
    found = getattr(loaded.settings, name)
    assert (found, type(found), loaded.origins[name]) == (value, type(value), key)


def test_variables_that_are_empty_or_not_settings_do_not_count(project):
    environment = {"MIEN_THREADS": "", "MIEN_HOME": "x", "PROVIDER": "cuda", "XMIEN_MODEL": "m"}
    environment["MIEN_POLICY"] = "policy.toml"
    assert load(folder=project.parent, environment=environment).settings == Settings()


def test_the_environment_of_the_process_counts_by_default(project, monkeypatch):
    monkeypatch.setenv("MIEN_QUALITY", "77")
    assert load(folder=project.parent).settings.quality == 77
    assert load(folder=project.parent, environment={}).settings.quality is None


# Paths


def test_paths_in_a_file_are_relative_to_it(user, project, tmp_path):
    write(user, 'ledger = "own/ledger"\ncache_folder = "~/cache"')
    write(project, f"models = '{tmp_path / 'cards'}'")
    settings = load(folder=project.parent, environment={}).settings
    assert settings.ledger == user.parent / "own" / "ledger"
    assert settings.cache_folder == tmp_path / "cache"
    assert settings.models == tmp_path / "cards"


def test_paths_elsewhere_stay_as_they_are_but_for_the_tilde(project, tmp_path):
    environment = {"MIEN_MODELS": "cards", "MIEN_LEDGER": "~/ledger"}
    flags = {"cache_folder": Path("~/cache")}
    settings = load(flags, folder=project.parent, environment=environment).settings
    assert settings.models == Path("cards")
    assert settings.ledger == tmp_path / "ledger"
    assert settings.cache_folder == tmp_path / "cache"
    assert Settings(models="~/cards").models == tmp_path / "cards"
    unknown = Path("~nobody-is-called-so/cards")
    assert Settings(models=unknown).models == unknown


# Values that are not possible


@pytest.mark.parametrize(
    ("key", "values", "allowed"),
    [
        ("model", "[3]", "swap network"),
        ("detector", "[true]", "detector"),
        ("provider", '[["cpu"]]', "cpu, cuda"),
        ("allow_fallback", "[1]", "true or false"),
        ("color_match", '["no"]', "true or false"),
        ("threads", '[0, 257, 2.0, true, "4"]', "1 to 256"),
        ("gpu_memory", '[4, "4", "0GB", "101%", "4 TB", ""]', "4GB, 800MB, 50%"),
        ("models", '[3, ""]', "folder"),
        ("blend", '["glue"]', "alpha (soft edge) or poisson"),
        ("label", "['on', 1]", "true or false: a label"),
        ("label_text", "['', 7]", "1 to 80 characters"),
        ("label_place", "['middle', true]", "bottom-right, bottom-left, top-right or top-left"),
        ("strength", "[-0.01, 1.01, true, nan]", "0 (the target's own identity) to 1"),
        ("max_distance", "[-0.1, 2.1]", "0 to 2"),
        ("quality", "[0, 101]", "1 to 100"),
        ("max_megapixels", "[0, inf, nan]", "above 0"),
        ("cache_size", "[-1]", "0 or more"),
        ("cache_folder", "[false]", "folder"),
        ("ledger", "[{}, 2026-01-01]", "file"),
    ],
)
def test_a_value_that_is_not_possible_is_named_with_its_origin(project, key, values, allowed):
    for value in tomllib.loads(f"values = {values}")["values"]:
        flag = f"--{'no-' if value is False else ''}{key.replace('_', '-')}"
        said = refusal({key: value}, folder=project.parent, environment={})
        assert said.startswith(f"{flag}={value!r} is not possible. Allowed: ")
        assert allowed in said
        with pytest.raises(InvalidOption) as caught:
            Settings(**{key: value})
        assert (caught.value.option, caught.value.allowed in said) == (key, True)
    for literal in values[1:-1].split(", "):
        write(project, f"{key} = {literal}")
        said = refusal(folder=project.parent, environment={})
        assert said.startswith(f"{project}: {key}={tomllib.loads(f'v={literal}')['v']!r} is not ")
        assert allowed in said


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("MIEN_THREADS", "many", "1 to 256"),
        ("MIEN_THREADS", "2.5", "1 to 256"),
        ("MIEN_QUALITY", "0", "1 to 100"),
        ("MIEN_STRENGTH", "0,5", "to 1"),
        ("MIEN_STRENGTH", "nan", "to 1"),
        ("MIEN_ALLOW_FALLBACK", "perhaps", "true or false"),
        ("MIEN_COLOR_MATCH", "2", "true or false"),
        ("MIEN_BLEND", "Poisson", "alpha (soft edge) or poisson"),
    ],
)
def test_a_variable_that_is_not_possible_is_named(project, name, text, allowed):
    said = refusal(folder=project.parent, environment={name: text})
    assert said.startswith(f"{name}=")
    assert text in said
    assert allowed in said


def test_a_wrong_value_is_an_error_though_a_later_layer_wins(user, project):
    write(user, "threads = 0")
    said = refusal({"threads": 2}, folder=project.parent, environment={"MIEN_THREADS": "3"})
    assert said.startswith(f"{user}: threads=0 ")


# Names that nobody knows


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("provdier", "provider"),
        ("max-distance", "max_distance"),
        ("colour_match", "color_match"),
        ("CACHE-FOLDER", "cache_folder"),
        ("fallback", "allow_fallback"),
        ("self", "model"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest(project, key, near):
    said = refusal({key: 1}, folder=project.parent, environment={})
    assert said.startswith(f"--{key.replace('_', '-')}=1 is not possible. Allowed: {near} (the ")
    write(project, f"{key} = 1")
    said = refusal(folder=project.parent, environment={})
    assert said.startswith(f"{project}: {key}=1 is not possible. Allowed: {near} (the nearest ")
    assert said.endswith(f"known: {', '.join(DEFAULTS)}.")


def test_a_table_is_an_unknown_key_too(project):
    write(project, "[swap]\nthreads = 1")
    assert f"{project}: swap={{'threads': 1}}" in refusal(folder=project.parent, environment={})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("MIEN_PROVDIER", "MIEN_PROVIDER"),
        ("MIEN_HOMES", "MIEN_HOME"),
        ("MIEN_threads", "MIEN_THREADS"),
    ],
)
def test_an_unknown_variable_is_an_error_with_the_nearest(project, name, near):
    said = refusal(folder=project.parent, environment={name: "1"})
    assert said.startswith(f"{name}='1' is not possible. Allowed: {near} (the nearest known name)")
    assert said.endswith(
        "MIEN_LEDGER, MIEN_CERTIFICATE, MIEN_PRIVATE_KEY, MIEN_SIGNING_PKCS11, MIEN_TIMESTAMP, "
        "MIEN_TRUST, MIEN_HOME, MIEN_POLICY."
    )


# Files that cannot be read


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"threads = 1\nthreads ! 2", "line 2"),
        (b"model = '\xff'", "utf-8"),
        (b"model = " + b"[" * 20000, ""),
        (None, "directory"),
    ],
    ids=["broken", "no text", "deep", "folder"],
)
@pytest.mark.parametrize("whose", ["user", "project"])
def test_a_file_that_cannot_be_read_is_an_error(user, project, whose, content, why):
    path = {"user": user, "project": project}[whose]
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    said = refusal(folder=project.parent, environment={})
    assert str(path) in said
    assert "a TOML file in UTF-8" in said
    assert why in said


def test_a_dead_link_is_an_error(project):
    project.symlink_to(project.parent / "gone.toml")
    inner = project.parent / "inner"
    inner.mkdir()
    assert "No such file" in refusal(folder=inner, environment={})


def test_a_current_folder_that_was_removed_is_an_error(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "a folder that is there" in refusal(environment={})


# The object


def test_settings_are_frozen():
    settings = Settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.threads = 2
    with pytest.raises(ValueError, match="frozen"):
        settings.provder = "cuda"
    loaded = load(environment={})
    for field in fields(loaded):
        with pytest.raises(AttributeError):
            setattr(loaded, field.name, None)


def test_two_settings_live_side_by_side(user, project):
    write(user, "threads = 1")
    first = load({"quality": 1}, folder=project.parent, environment={"MIEN_MODEL": "m"})
    write(user, "threads = 2")
    second = load({"strength": 0.5}, folder=project.parent, environment={})
    assert first.settings == Settings(threads=1, quality=1, model="m")
    assert second.settings == Settings(threads=2, strength=0.5)
    assert Settings() == Settings(**DEFAULTS)


def test_settings_can_be_copied_sent_and_compared():
    settings = Settings(ledger=Path("ledger"), threads=2)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert copy.deepcopy(settings) == settings
    assert len({settings, Settings(ledger="ledger", threads=2), Settings()}) == 2


def test_every_key_is_described_in_a_line():
    for field in Settings.model_fields.values():
        assert 20 < len(field.description) < 100
        assert "\n" not in field.description


def test_importing_the_settings_is_cheap():
    assert loaded_by("import mien.settings") & (HEAVY | {"rich", "typer"}) == set()
