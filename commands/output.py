"""How verbs hand over an answer: on standard output in the chosen format, or to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from commands.options import OutputFormat

if TYPE_CHECKING:
    from rich.console import RenderableType


def emit(output: OutputFormat, report: Mapping[str, Any], view: RenderableType) -> None:
    """Write an answer to standard output.

    Parameters
    ----------
    report
        The answer for programs (JSON, YAML).
    view
        The same for people (table).
    """
    from report.console import show
    from report.json_report import to_json
    from report.yaml_report import to_yaml

    if output is OutputFormat.TABLE:
        show(view, sys.stdout)
    else:
        sys.stdout.write(to_json(report) if output is OutputFormat.JSON else to_yaml(report))


def check_target(path: Path | None, option: str, suffix: str | tuple[str, ...] = "") -> None:
    """Refuse a file that could not be written, before any long work begins.

    Raises
    ------
    typer.BadParameter
        The folder does not exist, the path is a folder, or the name has another suffix.
    """
    if path is None:
        return
    suffixes = (suffix,) if isinstance(suffix, str) else suffix
    if any(suffixes) and path.suffix.lower() not in suffixes:
        ends = " or ".join(suffixes)
        raise typer.BadParameter(f'"{path}" does not end in {ends}', param_hint=option)
    if path.is_dir():
        raise typer.BadParameter(f'"{path}" is a folder', param_hint=option)
    if not path.parent.is_dir():
        raise typer.BadParameter(f'there is no folder "{path.parent}"', param_hint=option)


def check_folder(path: Path | None, option: str) -> None:
    """Refuse a folder that could not be made or is something else.

    Raises
    ------
    typer.BadParameter
        The path is a file, or its parent is no folder.
    """
    if path is None:
        return
    if path.exists() and not path.is_dir():
        raise typer.BadParameter(f'"{path}" is a file, not a folder', param_hint=option)
    if not path.exists() and not path.parent.is_dir():
        raise typer.BadParameter(f'there is no folder "{path.parent}"', param_hint=option)


def make_folder(path: Path, option: str) -> None:
    """Make a folder that `check_folder` let pass.

    Raises
    ------
    OSError
        It cannot be made.
    """
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        why = f"{option}: {path} cannot be made: {error.strerror}; name another folder"
        raise OSError(why) from error


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: readers never see half of it.

    Raises
    ------
    OSError
        The file cannot be written; what was there before is still there.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        _write(path.resolve(), data)
    except BrokenPipeError:
        raise
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror}; name another file"
        raise OSError(why) from error


def _write(target: Path, data: bytes) -> None:
    if target.exists() and not target.is_file():
        target.write_bytes(data)  # a pipe or a device cannot be replaced
        return
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
