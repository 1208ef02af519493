"""The command ``gelato``: its verbs, and what becomes of an exception.

A new verb is one module with a function, or a group of them, and one line in
:data:`VERBS`. A verb's module imports what is heavy inside its function.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from gelato.cli.console import print_error, safe_streams
from gelato.cli.options import grouped
from gelato.errors import GelatoError

# Verbs and what they call, in the order of the help page.
VERBS = {
    "demo": "demo",
    "run": "run_all",
    "check": "check",
    "fit": "fit",
    "evaluate": "evaluate",
    "predict": "predict",
    "explain": "explain",
    "tune": "tune",
    "compare": "compare",
    "report": "report",
    "reproduce": "reproduce",
    "data": "data",
    "list": "list_names",
    "version": "show_version",
}

# 128 + the signal's number, as shells report it.
INTERRUPTED = 130
READER_GONE = 141

# The base of all complaints about a command line, wherever typer keeps its click.
_ClickError: Any = typer.BadParameter.__mro__[2]

_HELP = (
    "Which links are missing from a graph, and how good is the guess? Every method is "
    "measured by ranking each true link against every non-link."
)
_EPILOG = (
    "First steps: gelato demo. On your own files: gelato check --edges FILE, then "
    "gelato run --edges FILE --attributes FILE; or gelato fit with the same, then "
    "gelato predict run/ and gelato explain run/ A B."
)


def build(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """Return the application with all verbs, or with those asked for."""
    app = typer.Typer(
        name="gelato",
        help=_HELP,
        epilog=_EPILOG,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_start)
    for verb in verbs:
        made = getattr(importlib.import_module(f"gelato.cli.{verb}"), VERBS[verb])
        if isinstance(made, typer.Typer):
            app.add_typer(made, name=verb)
        else:
            app.command(verb)(grouped(made))
    return app


def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Print the version and exit.")
    ] = False,
) -> None:
    if version:
        from gelato import __version__

        typer.echo(f"gelato {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code: 0 fine, 1 failed, 2 misuse."""
    safe_streams()
    try:
        _invoke(arguments)
        sys.stdout.flush()
    except typer.Exit as stop:
        return int(stop.exit_code)
    except GelatoError as error:
        print_error(error.problem, error.hint)
        return error.exit_code
    except _ClickError as error:
        return _misused(error)
    except (KeyboardInterrupt, typer.Abort) as stop:
        print_error("interrupted.", getattr(stop, "hint", ""))
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has left. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except Exception as error:
        return _unexpected(error)
    return 0


def _invoke(arguments: Sequence[str]) -> None:
    # Of fourteen verbs one is wanted, and the others would take longer to prepare.
    named = [arguments[0]] if arguments and arguments[0] in VERBS else VERBS
    command = typer.main.get_command(build(named))
    with command.make_context("gelato", list(arguments)) as context:
        command.invoke(context)


def _misused(error: Any) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "gelato"
    said, hint = error.format_message(), f"See: {path} --help"
    options = [] if context is None else context.command.params
    if "extra argument" in said and any("--edges" in one.opts for one in options):
        hint = f"Files are named: {path} --edges FILE --attributes FILE. {hint}"
    print_error(said, hint)
    return int(error.exit_code)


def _unexpected(error: Exception) -> int:
    if os.environ.get("GELATO_DEBUG", "") not in ("", "0"):
        traceback.print_exc()
    text = " ".join(str(error).split())
    print_error(
        f"unexpected {type(error).__name__}: {text}",
        "This is a fault of gelato: please report it, with the command and the output "
        "of GELATO_DEBUG=1.",
    )
    return 1
