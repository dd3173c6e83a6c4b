"""Which provider runs a network, what is said of it, and that nothing is printed."""

from __future__ import annotations

import logging
import subprocess
import sys

import onnxruntime as ort
import pytest
from test_onnx import CPU, CUDA, assert_right, batch, network

from mien.engines import (
    AUTO,
    FASTEST_FIRST,
    PROVIDERS,
    TORCH_PROVIDERS,
    OnnxEngine,
    choose,
    missing,
)
from mien.engines.choose import RUNNERS, Wanted, running
from mien.engines.libraries import reason_of
from mien.errors import EngineError, EngineUnavailable, InvalidOption

ABSENT = [n for n, (theirs, _) in PROVIDERS.items() if theirs not in ort.get_available_providers()]

UNKNOWN = " (which of its nodes the CPU runs is not known)"


def runner(**faults):
    """Return runners that really run on the CPU, and fail as they are told to."""

    def opener(name):
        def opened(model, read, wanted):
            if fault := faults.get(name):
                raise fault
            engine = OnnxEngine(model, read, threads=wanted.threads)
            engine.__class__ = type(f"On{name}", (OnnxEngine,), {"provider": name})
            return engine

        return opened

    return {name: opener(name) for name in ("fast", "middle", "cpu")}


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


def refusal(reason):
    return EngineUnavailable(model="net", provider="fast", reason=reason)


def test_every_provider_has_a_runner_and_the_cpu_is_last():
    assert [name for name in RUNNERS if name != "torch-cpu"] == list(FASTEST_FIRST)
    assert list(RUNNERS)[-1] == "cpu"
    assert set(RUNNERS) == {*PROVIDERS, *TORCH_PROVIDERS}


# With the ONNX Runtime that is here


@pytest.mark.parametrize("name", ABSENT)
def test_a_provider_that_is_not_built_in_is_refused(name, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(EngineUnavailable) as caught:
        choose("net", network, provider=name)
    assert (caught.value.model, caught.value.provider) == ("net", name)
    assert "was built without it" in str(caught.value)
    assert lines(caplog) == []


@pytest.mark.parametrize("name", ABSENT)
def test_where_it_is_allowed_the_cpu_runs_instead(name, caplog):
    caplog.set_level(logging.INFO)
    engine = choose("net", network, provider=name, allow_fallback=True, threads=1)
    assert engine.provider == "cpu"
    warning, line = lines(caplog)
    assert "was built without it" in warning
    assert "The CPU runs it instead, as allowed." in warning
    assert line == "net runs on cpu"
    assert_right(engine(batch(3)), batch(3))


@pytest.mark.skipif(missing("torch-cuda") is None, reason="there is a GPU here")
@pytest.mark.skipif(len(ABSENT) < len(PROVIDERS) - 1, reason="this build has more than the CPU")
def test_auto_says_in_one_line_what_it_chose_and_why(caplog):
    caplog.set_level(logging.INFO)
    engine = choose("net", network, provider=AUTO, threads=1)
    assert engine.provider == "cpu"
    (line,) = lines(caplog)
    assert line.startswith("net runs on cpu; passed over: torch-cuda: ")
    assert "\n" not in line
    for name in ABSENT:
        assert f"{name}: not " in line
    assert_right(engine(batch(3)), batch(3))


def test_nothing_is_printed_by_any_of_it():
    """ONNX Runtime prints its own fallbacks; here to a real standard output."""
    code = (
        "from mien.models import Catalogue\n"
        "from mien.engines import FASTEST_FIRST, choose\n"
        "read = Catalogue().card('yunet').read\n"
        "for name in ('auto', *FASTEST_FIRST):\n"
        "    choose('yunet', read, provider=name, allow_fallback=True, threads=1)\n"
        "print('end')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout == "end\n"


# The list, from fastest to safest


def test_the_fastest_that_runs_is_taken_and_nothing_is_passed_over(caplog):
    caplog.set_level(logging.INFO)
    engine = choose("net", network, provider=AUTO, runners=runner())
    assert engine.provider == "fast"
    nodes = " (4 on cpu, of 4 nodes)" if engine.nodes else UNKNOWN
    assert lines(caplog) == ["net runs on fast" + nodes]


def test_those_that_do_not_open_are_passed_over_with_their_reasons(caplog):
    caplog.set_level(logging.INFO)
    faults = {"fast": refusal("no\n driver."), "middle": EngineError("It is odd.", model="net")}
    engine = choose("net", network, provider=AUTO, runners=runner(**faults))
    assert engine.provider == "cpu"
    assert lines(caplog) == ["net runs on cpu; passed over: fast: no driver; middle: It is odd"]


def test_one_that_opens_and_does_not_run_is_passed_over(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    run = OnnxEngine.__call__

    def fail(engine, inputs):
        if engine.provider == "fast":
            raise EngineError("cuDNN is missing.", model="net")
        return run(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", fail)
    assert choose("net", network, provider=AUTO, runners=runner()).provider == "middle"
    assert lines(caplog)[0].endswith("passed over: fast: cuDNN is missing")


def test_a_network_that_nothing_runs_is_an_error():
    with pytest.raises(EngineError, match="could not be opened"):
        choose("net", lambda: b"no network", provider=AUTO)


def test_options_reach_the_runner():
    seen = []
    runners = {"cuda": lambda *given: seen.append(given) or OnnxEngine("net", network)}
    choose("net", network, provider="cuda:1", threads=2, allow_fallback=True, runners=runners)
    wanted = Wanted(index=1, threads=2, auto=False, allow_fallback=True)
    assert seen == [("net", network, wanted)]


@pytest.mark.parametrize(
    "provider", ["gpu", "", "auto:1", "cpu:0", "coreml:1", "cuda:", "cuda:-1", "CUDA", "cuda:1:2"]
)
def test_what_is_no_provider_is_refused_with_those_there_are(provider):
    with pytest.raises(InvalidOption) as caught:
        choose("net", lambda: pytest.fail("the weights were read"), provider=provider)
    assert (caught.value.option, caught.value.value) == ("provider", provider)
    assert all(name in str(caught.value) for name in (AUTO, *PROVIDERS, "cuda:1"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("CUDA failure 100", "CUDA failure 100."),
        ("It is\n  missing.\n", "It is missing."),
        ("/src/a/b_state.cc:729 void a::b(C&, const D&) Please install it.", "Please install it."),
        ("[ONNXRuntimeError] : 1 : FAIL : No (x) Y", "[ONNXRuntimeError] : 1 : FAIL : No (x) Y."),
    ],
)
def test_reasons_are_one_sentence_without_places_in_code(error, said):
    assert reason_of(RuntimeError(error)) == said


# What runs it


def claim(monkeypatch, running, parts, options=None):
    """Let sessions claim to be on other providers; ``parts`` are pairs of provider and nodes."""
    real = ort.InferenceSession

    class Part:
        def __init__(self, name, count):
            self.ep_name, self.count = name, count

        def get_nodes(self):
            return [None] * self.count

    class Claiming(real):
        def __init__(self, weights, told, providers, enable_fallback):
            self.asked = [name for name, _ in providers]
            super().__init__(weights, told, providers=[CPU], enable_fallback=enable_fallback)

        def get_providers(self):
            return running if self.asked[0] != CPU else [CPU]

        def get_provider_options(self):
            return options or {}

        def get_provider_graph_assignment_info(self):
            return [Part(*part) for part in (parts if self.asked[0] != CPU else [(CPU, 5)])]

    monkeypatch.setattr(ort, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(ort, "InferenceSession", Claiming)


def test_nodes_that_the_cpu_runs_are_said(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    claim(monkeypatch, [CUDA, CPU], [(CUDA, 30), (CPU, 2), (CUDA, 8)])
    engine = choose("net", network, provider="cuda")
    assert engine.nodes == {"cuda": 38, "cpu": 2}
    assert lines(caplog) == ["net runs on cuda (2 on cpu, of 40 nodes)"]


def test_a_provider_that_takes_no_node_does_not_run_it(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    claim(monkeypatch, [CUDA, CPU], [(CPU, 5)])
    with pytest.raises(EngineUnavailable, match="none of the network's nodes"):
        choose("net", network, provider="cuda")
    assert choose("net", network, provider=AUTO).provider == "cpu"
    assert "cuda: it took none of the network's nodes (5 on cpu)" in lines(caplog)[-1]
    assert choose("net", network, provider="cuda", allow_fallback=True).provider == "cpu"


@pytest.mark.parametrize(("number", "provider"), [("0", "cuda"), ("1", "cuda:1")])
def test_the_device_is_the_session_s(monkeypatch, number, provider):
    claim(monkeypatch, [CUDA, CPU], [(CUDA, 5)], {CUDA: {"device_id": number}})
    engine = choose("net", network, provider="cuda:1")
    assert (engine.provider, running(engine)) == (provider, provider)


def test_what_is_not_known_of_the_nodes_is_said(monkeypatch):
    claim(monkeypatch, [CUDA, CPU], [])
    engine = choose("net", network, provider="cuda")
    assert engine.nodes is None
    assert running(engine) == "cuda" + UNKNOWN


def test_a_session_that_cannot_be_opened_says_why(monkeypatch, capsys):
    claim(monkeypatch, [CUDA, CPU], [(CUDA, 5)])
    real = ort.InferenceSession.__init__

    def fail(session, weights, told, providers, enable_fallback):
        assert enable_fallback == 0
        if providers[0][0] == CUDA:
            raise RuntimeError("CUDA failure 100")
        real(session, weights, told, providers, enable_fallback)

    monkeypatch.setattr(ort.InferenceSession, "__init__", fail)
    with pytest.raises(EngineUnavailable, match="CUDA failure 100"):
        choose("net", network, provider="cuda")
    assert capsys.readouterr().out == ""
