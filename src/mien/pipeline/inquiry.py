"""Inquiry: what the guard makes of one picture, found out beside the work on it.

The networks that refuse take part of the time of a swap. They run in threads of the guard's own
while faces are searched and made anew; before a pixel is changed, or anything is returned, all of
them have passed. Which refusal is raised, and logged, depends on no thread: that for the content
comes first, then that for a protected person, then that for an age.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from torch import Tensor

from mien.pipeline.casting import Cast
from mien.pipeline.guarding import Guard, records, sampled, where
from mien.stages.align import align
from mien.types import Faces, Frame


class Inquiry:
    """Refuses a picture, all frames of it, as a context in which it is worked on.

    Leaving it settles what is still asked, also when the work failed: a refusal goes before any
    other error, as if all had been looked at first. For one thread.
    """

    def __init__(self, guard: Guard, frames: Sequence[Frame], cast: Cast) -> None:
        self._guard, self._cast, self._consents = guard, cast, records(cast)
        self._asked: deque[Future[None]] = deque()
        self._raised: BaseException | None = None
        self._asked.append(guard.aside.submit(guard.look, sampled(frames)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or (isinstance(error, Exception) and error is not self._raised):
            self.settle()

    def faces(self, frame: Frame, faces: Faces, own: Tensor | None, adults: Sequence[bool]) -> None:
        """Ask about ``faces`` of ``frame``, which are to be swapped.

        ``own`` are their embeddings (K, D), if they are known. ``adults`` says which are stated to
        be adults'. Raises ProtectedPerson at once, and as ``settle`` if there is a gallery.
        """
        guard = self._guard
        if not len(faces):
            return
        if guard.gallery.all():
            self.settle()  # the content goes before them
            if own is None:
                own = guard.embedder(align(frame, faces, guard.embedder.contract))
            guard.protected(own, where(frame.time), self._consents)
        ages, what = guard.ages(), where(frame.time)
        crops = align(frame, faces, ages.contract)  # now: the frame's pixels are to change

        def look() -> None:
            guard.old_enough(ages(crops).tolist(), what, adults)

        self._asked.append(guard.aside.submit(look))

    def settle(self) -> None:
        """Wait for all that was asked. Raises UnsuitableContent or LooksYoung, the first by order.

        Raises WeightsMissing and the like, too, if a network that refuses cannot run: nothing goes
        unseen.
        """
        while self._asked:
            answer = self._asked.popleft()
            try:
                with self._guard.audit.refusals(self._consents):
                    answer.result()
            except BaseException as error:
                self._raised = error
                raise
