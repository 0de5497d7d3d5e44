"""What verbs about Kubernetes share: files of objects in, options to what they mean."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kube.cluster import ImportOptions
    from kube.reading import Found
    from kube.snapshot import Snapshot

EVERY = 500
"""Objects between two looks at the clock."""


def read_files(files: Sequence[str]) -> Snapshot:
    """The cluster that files of objects describe together; ``-`` is standard input.

    Raises
    ------
    specs.errors.SpecErrors
        A file cannot be read, or objects in it are at fault.
    """
    from kube.reading import read_objects
    from kube.snapshot import Snapshot
    from specs.reading import standard_input

    if list(files).count("-") > 1:
        raise typer.BadParameter("standard input can be read once", param_hint="FILE")
    snapshot = Snapshot()
    for name in files:
        if name == "-":
            snapshot.add_all(counted(read_objects(standard_input(), "<stdin>"), "<stdin>"))
        else:
            with _opened(name) as stream:
                snapshot.add_all(counted(read_objects(stream, name), name))
    return snapshot


def read_live(kubeconfig: str | None, context: str | None) -> Snapshot:
    """The cluster of a kubeconfig, as it is now; it is only read.

    Raises
    ------
    specs.errors.SpecErrors
        The cluster cannot be reached or read, or objects in it are at fault.
    """
    from kube.client import KubeconfigApi, live_objects
    from kube.snapshot import Snapshot

    snapshot = Snapshot()

    def denied(path: str) -> None:
        snapshot.report.ignored.add("lists that may not be read", path)

    found = live_objects(KubeconfigApi(kubeconfig, context), denied)
    snapshot.add_all(counted(found, context or "cluster"))
    return snapshot


def counted(objects: Iterable[Found], name: str) -> Iterator[Found]:
    """The same objects, with their number shown on standard error where it takes a while."""
    from time import monotonic

    from report.progress import ProgressLine
    from solver.progress import Progress

    began = monotonic()
    with ProgressLine(sys.stderr) as line:
        for number, found in enumerate(objects, start=1):
            yield found
            if number % EVERY == 0:
                message = f"{name}: {number:,} objects"
                line(
                    Progress(
                        elapsed_s=monotonic() - began,
                        tier="import",
                        value=number,
                        bound=number,
                        message=message,
                    )
                )


def _opened(name: str) -> IO[bytes]:
    from pathlib import Path

    from specs.errors import SpecErrors, SpecFault

    path = Path(name)
    if path.is_dir():
        fault = SpecFault(file=name, rule="this is a folder, not a file")
        raise SpecErrors([fault])
    try:
        return path.open("rb")
    except OSError as error:
        fault = SpecFault(file=name, rule=f"cannot be read: {error.strerror or error}")
        raise SpecErrors([fault]) from error


def import_options(
    gpu_resources: Sequence[str] | None,
    levels: Sequence[str] | None,
    domains: Sequence[str] | None,
) -> ImportOptions:
    """Options of the command line as the importer takes them.

    Raises
    ------
    typer.BadParameter
        A level is not NAME=LABEL, or a resource has no name.
    """
    from kube.cluster import ImportOptions

    pairs = []
    for level in levels or ():
        name, equals, label = level.partition("=")
        if not (name and equals and label):
            raise typer.BadParameter(f'"{level}" is not NAME=LABEL', param_hint="--level")
        pairs.append((name, label))
    if "" in (gpu_resources or ()):
        raise typer.BadParameter('"" is no name of a resource', param_hint="--gpu-resource")
    given = ImportOptions()
    return ImportOptions(
        gpu_resources=tuple(gpu_resources or given.gpu_resources),
        levels=tuple(pairs),
        domains=tuple(domains or ()),
    )
