"""Which shapes become graphs, and when they go again, with a stand-in for CUDA."""

from __future__ import annotations

import logging
from threading import Barrier, Thread
from time import sleep

import pytest
import torch

from mien import Catalogue
from mien.engines import TorchEngine, graphed
from mien.engines.capturing import CAPTURING
from mien.engines.graphed import KEPT, RECENT, REST, SEEN, Graphed, release_all, with_room
from mien.errors import GpuFull

HERE = torch.device("cpu")
FULL = torch.OutOfMemoryError("CUDA out of memory")


class Graph:
    """What CudaGraph is but for CUDA: it reads and writes memory of its own."""

    def __init__(self, network, inputs, sibling=None):
        self.network, self.sibling = network, sibling
        self.inputs = [value.clone() for value in inputs]
        self.calls, self.finished = 0, False

    def __call__(self, *inputs):
        assert not self.finished
        self.calls += 1
        for mine, given in zip(self.inputs, inputs, strict=True):
            mine.copy_(given)
        sleep(1e-5)  # two at once would mix
        return self.network(*self.inputs)

    def finish(self):
        self.finished = True


class Book:
    """A network with graphs, and what was captured."""

    def __init__(self, network=None, capture=Graph):
        self.graphs, self.runs, self._capture = [], 0, capture
        self._function = network or (lambda x: (x * 2, x.sum()))
        self.net = Graphed("net", self._network, HERE, capture=self.capture)

    def capture(self, network, inputs, sibling):
        self.graphs.append(self._capture(self._function, inputs, sibling))
        return self.graphs[-1]

    def _network(self, x):
        self.runs += 1
        return self._function(x)

    def see(self, *rows):
        for count in rows:
            x = torch.randn(count, 2)
            twice, total = self.net(x)
            assert torch.equal(twice, x * 2)
            assert torch.equal(total, x.sum())

    @property
    def shapes(self):
        return [len(graph.inputs[0]) for graph in self.graphs]


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch):
    monkeypatch.setattr(graphed, "_all", type(graphed._all)())


def test_a_shape_that_recurs_is_captured_once():
    book = Book()
    book.see(*[1] * (SEEN - 1), 2)
    assert (book.shapes, book.runs) == ([], SEEN)
    book.see(*[1] * 5)
    assert (book.shapes, book.runs) == ([1], SEEN)
    assert book.graphs[0].calls == 5
    book.see(*[2] * SEEN)
    assert book.shapes == [1, 2]
    assert book.graphs[1].sibling is book.graphs[0]


def test_shapes_of_now_and_then_stay_without():
    book = Book()
    others = RECENT // (SEEN - 1) + 1
    for _ in range(4):
        book.see(*range(1, others + 1))
    assert book.shapes == []


def test_shapes_that_take_turns_do_not_drive_each_other_out():
    book = Book()
    for _ in range(20):
        book.see(*range(1, KEPT + 3))
    assert len(book.shapes) == KEPT
    assert not any(graph.finished for graph in book.graphs)


def test_the_one_that_rested_longest_makes_room():
    book = Book()
    for rows in range(1, KEPT + 1):
        book.see(*[rows] * SEEN)
    book.see(*[1] * SEEN, *[2] * RECENT)
    book.see(*[50] * SEEN)
    assert book.shapes == [*range(1, KEPT + 1), 50]
    assert [graph.finished for graph in book.graphs] == [False, False, True, *[False] * (KEPT - 2)]
    book.see(1, 2, 50)
    assert book.graphs[0].calls == 2 * SEEN - SEEN + 2


def test_threads_get_what_is_theirs():
    book, ready, wrong = Book(), Barrier(6), []

    def work():
        ready.wait()
        try:
            book.see(*[1, 2, 3, 3] * 60)
        except BaseException as error:  # noqa: BLE001 told by the test's thread
            wrong.append(error)

    threads = [Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sorted(book.shapes) == [1, 2, 3]


def test_others_wait_while_one_captures_and_capture_nothing_then(monkeypatch):
    book = Book()
    book.see(*[1] * (SEEN - 1))
    with CAPTURING, monkeypatch.context() as patch:
        patch.setattr(graphed, "busy", lambda: True)
        other = Thread(target=lambda: book.see(1))
        other.start()
        other.join(0.2)
        assert other.is_alive()
        assert book.runs == SEEN - 1
    other.join()
    assert (book.shapes, book.runs) == ([], SEEN)
    inner = []

    def slow(*arguments):
        thread = Thread(target=lambda: inner.append(book.see(1)))
        thread.start()
        thread.join(10)
        return Graph(*arguments)

    book._capture = slow
    book.see(1)
    assert inner == [None]
    assert book.shapes == [1]


@pytest.mark.parametrize("error", [FULL, RuntimeError("operation not permitted")])
def test_what_cannot_be_captured_runs_on_and_is_told_once(error, caplog):
    def refuse(*arguments):
        raise error

    book = Book(capture=refuse)
    tries = []
    book.capture = book.net._capture = lambda *arguments: tries.append(1) or refuse()
    with caplog.at_level(logging.WARNING):
        book.see(*[1] * (SEEN + REST - 1))
        assert len(tries) == 1
        book.see(*[1] * 2 * REST)
    assert len(tries) == 2  # it rests longer each time
    (record,) = caplog.records
    assert str(error) in record.getMessage()
    assert "net on cpu runs step by step" in record.getMessage()


def test_graphs_go_when_memory_runs_out():
    full = []

    def network(x):
        if full:
            raise full.pop()
        return x * 2, x.sum()

    one, other = Book(), Book(network)
    one.see(*[1] * SEEN)
    other.see(*[1] * SEEN)
    full.append(FULL)
    other.see(4)  # tried once more, with the memory of the graphs
    assert one.graphs[0].finished
    assert other.graphs[0].finished
    full.append(FULL)
    with pytest.raises(torch.OutOfMemoryError):  # there is nothing more to give: see Halving
        other.see(4)
    one.see(*[1] * REST)
    assert one.shapes == [1]
    one.see(*[1] * SEEN)
    assert one.shapes == [1, 1]
    assert not release_all(torch.device("meta"))
    full.append(FULL)
    one._function = other._function
    with pytest.raises(ValueError, match="other"):
        Book(lambda x: (_ for _ in ()).throw(ValueError("other"))).see(1)


def test_outputs_that_do_not_fit_are_made_step_by_step():
    class Cramped(Graph):
        def __call__(self, *inputs):
            raise FULL

    book = Book(capture=Cramped)
    book.see(*[1] * SEEN)
    assert book.graphs[0].finished


def test_a_cpu_has_no_graphs():
    card = Catalogue().card("mien-occlusion")
    engine = TorchEngine(card.name, card.read, provider="torch-cpu")
    assert engine._fast is engine.module


class Quiet:
    """A stream or an event of CUDA's, of which nothing is needed here."""

    def __getattr__(self, name):
        return lambda *arguments: None


class Replayed:
    """A CUDA graph, by running again what was captured."""

    def __init__(self, run, outputs):
        self.run, self.outputs = run, outputs

    def replay(self):
        for mine, made in zip(self.outputs, self.run(), strict=True):
            mine.copy_(made)

    def pool(self):
        return "pool"


def test_a_graph_reads_and_writes_memory_of_its_own(monkeypatch):
    asked = []

    def captured(run, device, *, pool, search):
        assert not search
        asked.append(pool)
        outputs = run()
        return Replayed(run, outputs), outputs

    monkeypatch.setattr(graphed, "captured", captured)
    for name in ("Event", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *arguments: Quiet())
    net = Graphed("net", lambda x: (x * 2, x.view_as(x)), HERE)
    kept = []
    for inference in (True, False):  # memory made in either must be written in both
        with torch.inference_mode(inference), torch.no_grad():
            for rows in (1, 2) * 2 * SEEN:
                x = torch.randn(rows, 3)
                kept.append((x, *net(x)))
    assert all(torch.equal(twice, x * 2) and torch.equal(same, x) for x, twice, same in kept)
    assert len({same.data_ptr() for _, _, same in kept}) == len(kept)
    assert asked == [None, "pool"]
    assert release_all(HERE)


def full(times):
    """Return work that finds no memory so often, and then does its part."""
    tries = []

    def run():
        tries.append(1)
        if len(tries) <= times:
            raise FULL
        return len(tries)

    return run


def test_work_that_finds_no_memory_gets_that_of_the_graphs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    assert with_room(HERE, full(0)) == 1
    with pytest.raises(GpuFull, match="no memory for pictures"):
        with_room(HERE, full(1))  # there are none
    book = Book()
    book.see(*[1] * SEEN)
    assert with_room(HERE, full(1)) == 2
    assert book.graphs[0].finished
    other = Book()
    other.see(*[1] * SEEN)
    with pytest.raises(GpuFull):
        with_room(HERE, full(2))
