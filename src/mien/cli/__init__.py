"""The command line. No logic lives here: it reads options, calls the engine, and prints."""

from mien.cli.app import main

__all__ = ["main"]
