"""The version of mien, read from the installed package."""

from importlib.metadata import version

__version__ = version("mien")
