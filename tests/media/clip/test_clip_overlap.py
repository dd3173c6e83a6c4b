"""Threads that read ahead and write behind: in order, bounded, and never left hanging."""

import gc
import threading
import time

import pytest

from mien.media.clip import Behind, ahead


def threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("Thread-")}


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threads()
    yield
    deadline = time.monotonic() + 5
    while threads() - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not threads() - before


def test_items_come_in_order():
    assert list(ahead(iter(range(1000)), 4)) == list(range(1000))
    assert list(ahead([], 1)) == []


def test_it_reads_ahead_and_no_further():
    taken = []

    def items():
        for number in range(20):
            taken.append(number)
            yield number

    reader = ahead(items(), 3)
    assert next(reader) == 0
    time.sleep(0.3)
    assert len(taken) <= 5  # one delivered, three waiting, one in hand
    assert len(taken) >= 4
    reader.close()
    assert len(taken) < 20


def test_an_error_crosses_over_behind_what_came_before():
    def items():
        yield 1
        yield 2
        raise ValueError("broken")

    found = []
    with pytest.raises(ValueError, match="broken"):
        found.extend(ahead(items(), 8))
    assert found == [1, 2]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_leaving_early_ends_and_closes_what_is_read(error):
    closed = threading.Event()

    def items():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    def leave(reader):
        for _ in reader:
            raise error

    with pytest.raises(error):
        leave(ahead(items(), 2))
    gc.collect()
    assert closed.wait(5)


def test_what_is_put_is_consumed_in_order_before_the_end():
    found = []

    def slowly(item):
        time.sleep(0.001)
        found.append(item)

    with Behind(slowly, 3) as writer:
        for number in range(50):
            writer.put(number)
    assert found == list(range(50))


def put_all(behind, count, gate=None, error=None):
    """Put numbers; then open ``gate`` and raise ``error``, if there are such."""
    with behind as writer:
        for number in range(count):
            writer.put(number)
        if gate is not None:
            gate.set()
        if error is not None:
            raise error


def test_a_writer_that_fails_is_heard_of():
    def fail(item):
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        put_all(Behind(fail, 2), 100)
    with pytest.raises(OSError, match="no space"), Behind(fail, 2) as writer:
        writer.put(1)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_drops_what_waits(error):
    gate, found = threading.Event(), []

    def consume(item):
        gate.wait(5)
        found.append(item)

    with pytest.raises(error):
        put_all(Behind(consume, 8), 5, gate, error)
    assert len(found) <= 5


def test_a_put_waits_while_the_queue_is_full():
    gate = threading.Event()
    put = []

    def work():
        with Behind(lambda item: gate.wait(5), 2) as writer:
            for number in range(6):
                writer.put(number)
                put.append(number)

    thread = threading.Thread(target=work, name="a writer")
    thread.start()
    time.sleep(0.3)
    assert len(put) <= 4
    gate.set()
    thread.join(5)
    assert len(put) == 6


def test_a_whole_chain_gives_the_same_as_one_thread():
    found = []
    with Behind(found.append, 4) as writer:
        for item in ahead(iter(range(300)), 4):
            writer.put(item * item)
    assert found == [number * number for number in range(300)]
