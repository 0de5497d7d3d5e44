#!/usr/bin/env python3
"""The command line: wiring of the verbs, global options, and what each error exits with."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from commands import (
    advise,
    compare,
    explain,
    export,
    import_cluster,
    mig,
    plugin,
    prices,
    schema,
    simulate,
    solve,
    topology,
    validate,
)

app = typer.Typer(
    name="unstrand",
    help="Place GPU jobs on a cluster: the best plan, with its proof.",
    epilog="Exit codes: 0 done, 2 usage, 3 bad input, 4 a must job cannot run, 5 no answer in "
    "time, 70 internal error.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command("solve")(solve.solve)
app.command("compare")(compare.compare)
app.command("explain")(explain.explain)
app.command("validate")(validate.validate)
app.command("simulate")(simulate.simulate)
app.command("topology")(topology.topology)
app.command("advise")(advise.advise)
app.add_typer(mig.mig_app, name="mig", no_args_is_help=False)
app.add_typer(import_cluster.import_app, name="import", no_args_is_help=False)
app.add_typer(plugin.plugin_app, name="plugin", no_args_is_help=False)
app.command("prices")(prices.prices)
app.command("export")(export.export)
app.command("schema")(schema.schema)

INTERRUPTED = 130
"""Exit code after Ctrl-C without an answer."""

USAGE_ERROR: type[BaseException] = typer.BadParameter.__mro__[1]
"""Every mistake in options and arguments; typer exports only this subclass of it."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"unstrand {version('unstrand')}")
        except PackageNotFoundError:
            typer.echo("unstrand (a checkout that is not installed)")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere on the line.")
    ] = False,
) -> None:
    """Place GPU jobs on a cluster: the best plan, with its proof."""
    if context.invoked_subcommand is None:
        context.fail("no verb; --help lists them")


def exit_code(error: BaseException) -> int:
    """The exit code of an error: the one table from kinds of errors to codes."""
    from commands.errors import MustJobError, NoAnswerError
    from plugin.errors import PluginError
    from simulator.sweep import FailedRunError
    from simulator.traces.table import TraceError
    from specs.errors import SpecError
    from topology.errors import TopologyError

    if isinstance(error, FailedRunError):
        return exit_code(error.error)
    table: tuple[tuple[type[BaseException], int], ...] = (
        (USAGE_ERROR, 2),
        (SpecError, 3),
        (TopologyError, 3),
        (TraceError, 3),
        (PluginError, 3),
        (OSError, 3),
        (MustJobError, 4),
        (NoAnswerError, 5),
        (KeyboardInterrupt, INTERRUPTED),
    )
    return next((code for kind, code in table if isinstance(error, kind)), 70)


def message(error: BaseException) -> str:
    """What is said of an error: one line, or one for each fault of a spec."""
    from simulator.sweep import FailedRunError
    from specs.errors import SpecError

    if isinstance(error, FailedRunError):
        return f"{error.run}: {message(error.error)}"
    if isinstance(error, SpecError):
        return str(error)  # lines that begin with file:line:column, as editors read them
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and error.filename is not None:
        return f"error: {error.filename}: {error.strerror}"
    # An error of the command line also knows the option and what it may have meant.
    text = getattr(error, "format_message", error.__str__)()
    line = " ".join(text.split()) or type(error).__name__
    if exit_code(error) == 70:
        return f"internal error: {type(error).__name__}: {line} (--debug shows where)"
    return f"error: {line}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    # A standard stream that was closed (``>&-``) is None: nobody listens, so nothing is said.
    nobody = io.TextIOWrapper(io.FileIO(os.devnull, "w"))
    sys.stdout, sys.stderr = sys.stdout or nobody, sys.stderr or nobody
    try:
        words = [word for word in words if word != "--debug"]
        code = app(words, prog_name="unstrand", standalone_mode=False)
        sys.stdout.flush()
        if arguments is None:
            # All is said: who presses Ctrl-C now would only see the interpreter stumble on its way.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if code == INTERRUPTED:  # Typer has caught it.
            sys.stderr.write(message(KeyboardInterrupt()) + "\n")
    except (BrokenPipeError, SystemExit):
        # The reader left (typer turns that into SystemExit); what it did not want needs no
        # complaint, neither now nor when the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exception(error)
        sys.stderr.write(message(error) + "\n")
        sys.exit(exit_code(error))
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
