"""Overlap: reading ahead and writing behind in threads, in order, with bounded queues."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

TICK = 0.1
"""Seconds after which a thread that waits looks whether it is still wanted."""


class _End:
    """Comes last through a queue, with the error that ended it if there was one."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def ahead(items: Iterable[T], size: int) -> Generator[T, None, None]:
    """Yield ``items``, computed in a thread of their own, up to ``size`` of them in advance.

    What they raise is raised here, behind the items that came before it. When this generator ends
    or is closed, for whatever reason, the thread ends and ``items`` is closed in it.
    """
    waiting: queue.Queue[T | _End] = queue.Queue(max(size, 1))
    stop = threading.Event()
    thread = threading.Thread(target=_fill, args=(items, waiting, stop), daemon=True)
    thread.start()
    try:
        while True:
            try:  # waiting with a limit lets an interrupt through on every system
                item = waiting.get(timeout=TICK)
            except queue.Empty:
                continue
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
            del item  # a frame that was dealt with is not held while the next is waited for
    finally:
        stop.set()
        thread.join()


def _fill(items: Iterable[T], waiting: queue.Queue[T | _End], stop: threading.Event) -> None:
    end = _End()
    iterator = iter(items)
    try:
        for item in iterator:
            if not _put(waiting, item, stop):
                break
            del item
    except BaseException as error:  # noqa: BLE001 - it is raised where the items go
        end = _End(error)
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
    _put(waiting, end, stop)


def _put(waiting: queue.Queue[T | _End], item: T | _End, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            waiting.put(item, timeout=TICK)
        except queue.Full:
            continue
        return True
    return False


class Behind(Generic[T]):
    """Calls ``consume`` for one item after the other in a thread, up to ``size`` behind.

    A context: left without an error, it waits until all is consumed; left with one, it drops what
    waits. What ``consume`` raises is raised by the next ``put``, or on leaving.
    """

    def __init__(self, consume: Callable[[T], object], size: int) -> None:
        self._consume = consume
        self._waiting: queue.Queue[T | _End] = queue.Queue(max(size, 1))
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Behind[T]:
        self._thread.start()
        return self

    def put(self, item: T) -> None:
        """Hand over ``item``; wait while ``size`` others do. Raises what ``consume`` raised."""
        if not _put(self._waiting, item, self._stop):
            self._raise()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._stop.set()
        try:
            _put(self._waiting, _End(), self._stop)
            while self._thread.is_alive():
                self._thread.join(TICK)
        finally:  # an interrupt while it is waited for
            self._stop.set()
            self._thread.join()
        if error is None:
            self._raise()

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    item = self._waiting.get(timeout=TICK)
                except queue.Empty:
                    continue
                if isinstance(item, _End):
                    return
                self._consume(item)
                del item
        except BaseException as error:  # noqa: BLE001 - it is raised where the items come from
            self._error = error
        finally:
            self._stop.set()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
