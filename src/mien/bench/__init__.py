"""How fast mien is on this machine: by frame size, number of faces, stage, and way through it.

What is measured is what users get: frames go through ``mien.Swapper``, and, on a GPU, also through
the fixed-capacity frames of ``mien.replay``. Every frame is another one, so nothing is cached; the
frames of two runs are the same, so two reports can be compared frame by frame.
"""

from mien.bench.comparison import Comparison, compare
from mien.bench.measure import Limits, Row, measure
from mien.bench.paths import Path, Runner
from mien.bench.plan import QUICK, Plan, Size
from mien.bench.report import Report, read_report
from mien.bench.run import bench
from mien.bench.scene import Scene

__all__ = [
    "QUICK",
    "Comparison",
    "Limits",
    "Path",
    "Plan",
    "Report",
    "Row",
    "Runner",
    "Scene",
    "Size",
    "bench",
    "compare",
    "measure",
    "read_report",
]
