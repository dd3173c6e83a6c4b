"""One frozen set of settings, and where each value came from.

Five layers, the later wins: the defaults, the user's ``mien.toml``, the project's ``mien.toml``,
the environment (``MIEN_THREADS=4``), and flags (``--threads 4``). A value that is not possible is
an error in every layer, also where a later layer would have won, and so is a name that nobody
knows: a setting that is misspelt must not be left out in silence.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from platformdirs import user_config_path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from mien.budget import Budget
from mien.errors import InvalidOption
from mien.token_uri import OPTION, TokenUri

FILE = "mien.toml"
PREFIX = "MIEN_"
HOME = "MIEN_HOME"
"""Of mien's variables, one that is no setting: the folder of mien's own files."""

POLICY = "MIEN_POLICY"
"""The other: the file of the policy."""


def _path(value: object) -> object:
    """Take text for a path too, and expand its ``~``; an empty text stays what it is: no path."""
    if isinstance(value, str | Path) and value != "":
        return Path(os.path.expanduser(value))  # noqa: PTH111 - leaves an unknown ~user as it is
    return value


Place = Annotated[Path, BeforeValidator(_path)]
Memory = Annotated[str, AfterValidator(lambda text: Budget.read(text).text)]
InToken = Annotated[str, AfterValidator(lambda text: TokenUri.read(text).text)]


class Settings(BaseModel):
    """All settings; each description says what is allowed. Raises InvalidOption."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    model: str = Field(default="mien-256", description="a swap network that 'mien models' lists")
    detector: str = Field(default="yunet", description="a detector that 'mien models' lists")
    provider: str = Field(
        default="cpu",
        description="what runs the networks: auto, cpu, cuda, cuda:1, tensorrt, openvino, coreml, "
        "directml, torch-cuda",
    )
    allow_fallback: bool = Field(
        default=False, description="true or false: the CPU steps in if the provider cannot run"
    )
    threads: int | None = Field(
        default=None, ge=1, le=256, description="1 to 256 CPU threads a network; unset: all cores"
    )
    gpu_memory: Memory | None = Field(
        default=None,
        description="what may be taken of the GPU's memory: 4GB, 800MB, 50%; unset: all of it",
    )
    models: Place | None = Field(
        default=None, description="a folder with further model cards and weights"
    )
    blend: Literal["alpha", "poisson"] = Field(
        default="alpha", description="alpha (soft edge) or poisson (colours meet at the edge too)"
    )
    color_match: bool = Field(
        default=True, description="true or false: the swapped face gets the target's light"
    )
    occlusion: bool = Field(
        default=True, description="true or false: hands, hair and rims before a face stay there"
    )
    strength: float = Field(
        default=1.0, ge=0, le=1, description="0 (the target's own identity) to 1 (the source's)"
    )
    max_distance: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="0 to 2, greatest cosine distance within one person; unset: the embedder's",
    )
    quality: int | None = Field(
        default=None, ge=1, le=100, description="1 to 100, of JPEG, WebP, AVIF; unset: the input's"
    )
    subsampling: Literal["4:4:4", "4:2:2", "4:2:0"] | None = Field(
        default=None, description="4:4:4, 4:2:2 or 4:2:0, of JPEG and AVIF; unset: the input's"
    )
    label: bool | None = Field(
        default=None,
        description="true or false: a label is seen on outputs; unset: as the policy or text asks",
    )
    label_text: str | None = Field(
        default=None,
        min_length=1,
        max_length=80,
        description="1 to 80 characters that the label says; unset: that a face was edited",
    )
    label_place: Literal["bottom-right", "bottom-left", "top-right", "top-left"] | None = Field(
        default=None,
        description="bottom-right, bottom-left, top-right or top-left; unset: bottom-right",
    )
    max_megapixels: float = Field(
        default=250.0, gt=0, description="above 0; pictures with more megapixels are refused"
    )
    cache_size: int = Field(default=100, ge=0, description="0 or more embeddings to remember")
    cache_folder: Place | None = Field(
        default=None, description="a folder that keeps embeddings; unset: only memory does"
    )
    ledger: Place | None = Field(
        default=None, description="the file of the consent records; unset: mien's own"
    )

    certificate: Place | None = Field(
        default=None,
        description="a PEM file: the certificate that signs outputs, then those above it; unset: "
        "mien's own",
    )
    private_key: Place | None = Field(
        default=None, description="a PEM file: the key of the certificate, without a passphrase"
    )
    signing_pkcs11: InToken | None = Field(
        default=None,
        description="a PKCS #11 URI: the key is in a token, not in private_key; unset: in no token",
    )
    timestamp: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="a time stamp authority's URL, http:// or https://; unset: nobody is asked",
    )
    trust: Place | None = Field(
        default=None,
        description="a PEM file: authorities whose certificates 'mien verify' trusts; unset: none",
    )

    if not TYPE_CHECKING:  # type checkers are to see the keywords above

        def __init__(self, /, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _refusal(error.errors()[0]) from None


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where they came from."""

    settings: Settings
    origins: Mapping[str, str]
    """By key: 'default', the path of a file, a variable like MIEN_THREADS, a flag like --threads"""

    files: Mapping[Path, bool]
    """The user's file and the project's, and whether each is there."""


def load(
    flags: Mapping[str, object] | None = None,
    *,
    folder: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """Return the settings that are in force.

    ``flags`` are values by key; None stands for one that was not given. The project's file is the
    nearest ``mien.toml`` in ``folder`` (default: the current one) or a folder above it.
    ``environment`` defaults to the process's. Raises InvalidOption, which names the file and key,
    the variable or the flag.
    """
    paths = (user_config_path("mien", appauthor=False) / FILE, _project_file(folder))
    files = {path: os.path.lexists(path) for path in paths}
    given: dict[str, tuple[Any, str]] = {}
    for path, there in files.items():
        if there:
            given |= _from_file(path)
    given |= _from_environment(os.environ if environment is None else environment)
    given |= _from_flags(flags or {})
    return Loaded(
        settings=Settings(**{key: value for key, (value, _) in given.items()}),
        origins={
            key: given[key][1] if key in given else "default" for key in Settings.model_fields
        },
        files=files,
    )


def _project_file(folder: str | Path | None) -> Path:
    """Return the nearest settings file, or the path it would have in ``folder``."""
    try:
        here = Path(folder or "").resolve()
    except OSError as error:  # the current folder was removed
        raise InvalidOption("folder", str(folder or "."), "a folder that is there") from error
    paths = [place / FILE for place in (here, *here.parents)]
    # lexists takes a file behind a locked folder for absent; a dead link is found, and is an error
    return next(filter(os.path.lexists, paths), paths[0])


def _from_file(path: Path) -> dict[str, tuple[Any, str]]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidOption("settings", str(path), f"a TOML file in UTF-8 ({why})") from error
    checked = _checked(table, lambda key: f"{path}: {key}")
    return {
        key: (path.parent / value if isinstance(value, Path) else value, str(path))
        for key, value in checked.items()
    }


def _from_environment(environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    keys = {_variable(key): key for key in Settings.model_fields}
    given: dict[str, object] = {}
    for name, text in environment.items():
        if name.startswith(PREFIX) and name not in (HOME, POLICY) and text:
            if name not in keys:
                raise InvalidOption(name, text, _nearest(name.upper(), [*keys, HOME, POLICY]))
            given[keys[name]] = _parsed(keys[name], text)
    checked = _checked(given, _variable)
    return {key: (value, _variable(key)) for key, value in checked.items()}


def _from_flags(flags: Mapping[str, object]) -> dict[str, tuple[Any, str]]:
    given = {key: value for key, value in flags.items() if value is not None}
    checked = _checked(given, lambda key: _flag(key, given[key]))
    return {key: (value, _flag(key, value)) for key, value in checked.items()}


def _variable(key: str) -> str:
    return PREFIX + key.upper()


def _flag(key: str, value: object) -> str:
    return ("--no-" if value is False else "--") + key.replace("_", "-")


def _parsed(key: str, text: str) -> object:
    """Return the value a text stands for (yes: True), or the text, which is then refused."""
    kind: Any = Settings.model_fields[key].annotation
    with suppress(ValidationError):
        return TypeAdapter(kind).validate_strings(text)
    return text


def _checked(given: Mapping[str, object], name: Callable[[str], str]) -> dict[str, Any]:
    """Return the values of one layer with their types; ``name`` says what the layer calls a key."""
    try:
        settings = Settings(**given)  # type: ignore[arg-type]
    except InvalidOption as error:
        raise InvalidOption(name(error.option), error.value, error.allowed) from None
    return {key: getattr(settings, key) for key in given}


def _refusal(fault: ErrorDetails) -> InvalidOption:
    key, known = str(fault["loc"][0]), Settings.model_fields
    if key in known:
        why = fault.get("ctx", {}).get("error")
        if key == OPTION and isinstance(why, InvalidOption):  # of a URI, it says which part
            return why
        return InvalidOption(key, fault["input"], known[key].description or "")
    return InvalidOption(key, fault["input"], _nearest(key.lower().replace("-", "_"), known))


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = get_close_matches(name, known, n=1, cutoff=0)[0]
    return f"{near} (the nearest known name); known: {', '.join(known)}"
