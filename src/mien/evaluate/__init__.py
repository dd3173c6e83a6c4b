"""The ruler: how good a swapper is, measured by networks that it was never trained with.

``evaluate`` runs a protocol over a folder of people; ``quick_scores`` is its form for training.
"""

from mien.evaluate.intervals import Interval
from mien.evaluate.judges import Judges
from mien.evaluate.quick import quick_scores
from mien.evaluate.report import Report
from mien.evaluate.task import Task, evaluate

__all__ = ["Interval", "Judges", "Report", "Task", "evaluate", "quick_scores"]
