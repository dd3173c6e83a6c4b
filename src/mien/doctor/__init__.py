"""What a bug report needs: what this machine has, what mien makes of it, and what is wrong.

Users of tools like this one lose evenings to a runtime that says CUDA and runs on the CPU. So
nothing here is taken from what was asked for: weights are hashed, networks opened and run, and one
face swapped. Nothing is written, no camera is opened, and no name of a user, machine or folder
gets into the report.
"""

from mien.doctor.examination import examine
from mien.doctor.findings import Finding
from mien.doctor.report import Report

__all__ = ["Finding", "Report", "examine"]
