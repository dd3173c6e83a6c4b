"""Which operator of a graph makes what another reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mien.nets.graph import Operator


class Chains:
    """Who makes and who reads the values of a graph."""

    def __init__(self, steps: list[Operator], outputs: Iterable[str]) -> None:
        """Take note of ``steps``; ``outputs`` of the graph are read by whoever runs it."""
        self._readers = Counter([name for step in steps for name in step.inputs] + list(outputs))
        self.maker = {step.outputs[0]: step for step in steps}
        self._reader = {name: step for step in steps for name in step.inputs}

    def before(self, name: str, kind: str) -> Operator | None:
        """Return the operator of ``kind`` that makes the value ``name``, if only one reads that."""
        step = self.maker.get(name)
        return step if step and step.kind == kind and self._readers[name] == 1 else None

    def after(self, step: Operator) -> str | None:
        """Return the kind of operator that alone reads what ``step`` makes."""
        name = step.outputs[0]
        alone = self._readers[name] == 1 and name in self._reader
        return self._reader[name].kind if alone else None
