"""The ``mien`` command: its groups, and the one place where errors become exit codes."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import warnings
from io import TextIOWrapper
from typing import Annotated

import typer

from mien.cli import (
    audit,
    bench,
    config,
    consent,
    doctor,
    evaluate,
    faces,
    models,
    protect,
    swap,
    train,
    verify,
)
from mien.cli.console import drop_output
from mien.cli.exits import Exit, exit_code
from mien.errors import MienError, Unforeseen

app = typer.Typer(
    name="mien",
    help="Put a consenting person's face on the face in a picture or clip.",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Exit codes: {', '.join(map(str, Exit))}.",
)
app.command("swap")(swap.swap)
app.command("faces")(faces.faces)
app.command("verify")(verify.verify)
app.command("evaluate")(evaluate.evaluate)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)
app.add_typer(consent.app, name="consent")
app.add_typer(protect.app, name="protect")
app.add_typer(audit.app, name="audit")
app.add_typer(models.app, name="models")
app.add_typer(train.app, name="train")
app.add_typer(config.app, name="config")


def _version(wanted: bool) -> None:
    if wanted:
        from mien.version import __version__

        typer.echo(f"mien {__version__}")
        raise typer.Exit


@app.callback()
def common(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say what is done, and show tracebacks.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Set up what all commands share."""
    del version
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="mien: %(message)s",
        stream=sys.stderr,
    )
    # it reports as errors what it can do without
    logging.getLogger("tifffile").setLevel(logging.NOTSET if verbose else logging.CRITICAL)


def main() -> None:
    """Run the command line and exit with one of the codes of ``mien.cli.exits``."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123 - a stream may be closed
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    # what Pillow finds odd about a file that it can read is of no use to its owner
    warnings.filterwarnings("ignore", module=r"PIL\.")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names of files need not be text
            stream.reconfigure(errors="backslashreplace")
    for name in ("SIGTERM", "SIGHUP"):  # else nothing is tidied up
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; nothing is raised."""
    try:
        outcome = app(arguments or ["--help"], prog_name="mien", standalone_mode=False)
        sys.stdout.flush()
        code = outcome if isinstance(outcome, int) else Exit.SUCCESS
    except typer.TyperException as error:
        said = error.format_message().rstrip(".")
        message = f"{said}. 'mien --help' and 'mien COMMAND --help' say more."
        return _fail(arguments, type(error).__name__, message, Exit.USAGE)
    except (typer.Abort, KeyboardInterrupt):
        code = Exit.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # SystemExit is typer's way to say that the reader of our output has left
        drop_output()
        return Exit.SUCCESS
    except OSError as error:  # files' own errors have become MienErrors by now
        drop_output()
        print(f"mien: the report could not be printed: {error.strerror}.", file=sys.stderr)
        return Exit.FAILED
    except MienError as error:
        return _fail(arguments, type(error).__name__, str(error), exit_code(error))
    except Exception as error:  # the last line of defence: no user sees a traceback
        if not _is_interrupt(error):
            if "-v" in arguments or "--verbose" in arguments:
                logging.getLogger(__name__).exception("An error that mien did not foresee")
            return _fail(arguments, type(error).__name__, str(Unforeseen(error)), Exit.FAILED)
        code = Exit.INTERRUPTED
    if code == Exit.INTERRUPTED:
        said = "interrupted; no half-written file was left."
        code = _fail(arguments, "Interrupted", said, Exit.INTERRUPTED)
    return code


def _is_interrupt(error: Exception) -> bool:
    """Return whether ``error`` is what an extension makes of an interrupt while it is loaded."""
    return isinstance(error, ImportError) and isinstance(error.__cause__, KeyboardInterrupt)


def _fail(arguments: list[str], kind: str, message: str, code: Exit) -> int:
    print(f"mien: {message}", file=sys.stderr)
    if "--json" in arguments:
        report = {"error": {"kind": kind, "message": message, "exit": int(code)}}
        try:
            print(json.dumps(report, indent=2), flush=True)
        except OSError:
            drop_output()
    return code
