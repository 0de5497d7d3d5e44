"""MIG as users write it: slices that are asked for, instances that exist, what may be cut."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from solver.cluster import MigInstance
from solver.fleet import Item
from solver.workload import Slice
from specs.models.quantity import MIB, QuantityError, parse_quantity, rounded
from topology.errors import MigLayoutError, UnknownMigModelError, UnknownMigProfileError
from topology.hardware import gpu_model
from topology.mig.layouts import Instance, clash
from topology.mig.tables import mig_table, mig_table_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from solver.cluster import Node
    from specs.errors import SpecFault
    from specs.loaded import LoadedSpec
    from specs.models.cluster import MigGpuSpec, MigInstanceSpec
    from specs.models.policy import DemandSpec
    from specs.models.workload import RequestSpec
    from specs.places import Path

_AMOUNTS = re.compile(
    r"(?P<memory>[0-9.]+[kMGT]i?)?(?(memory)(\+(?P<more>[1-9])g)?|(?P<only>[1-9])g)"
)


def slices_of(request: RequestSpec | DemandSpec) -> tuple[tuple[Slice, int], ...]:
    """The slices of a request, sorted; equal ones are counted together."""
    found: dict[Slice, int] = {}
    for text, count in request.mig.items():
        wish = slice_of(text)
        found[wish] = found.get(wish, 0) + count
    return tuple(sorted(found.items()))


def slice_of(text: str) -> Slice:
    """What a key of ``mig`` asks for: a profile by name, or amounts.

    Examples
    --------
    >>> slice_of("3g.40gb").profile, slice_of("20Gi+2g").memory_mib, slice_of("20Gi+2g").compute
    ('3g.40gb', 20480, 2)
    """
    match = _AMOUNTS.fullmatch(text)
    if match is None:
        return Slice(profile=text.strip().lower())
    try:
        memory = parse_quantity(match["memory"]) if match["memory"] else Fraction(0)
    except QuantityError:
        return Slice(profile=text)
    return Slice(
        memory_mib=rounded(memory / MIB, "up"),
        compute=int(match["more"] or match["only"] or 0),
    )


def slice_faults(
    loaded: LoadedSpec, request: RequestSpec | DemandSpec, path: Path, nodes: Iterable[Node]
) -> Iterator[SpecFault]:
    """Slices that no GPU of the cluster has, with what they mean elsewhere."""
    if not request.mig:
        return
    tables = {table for node in nodes for table in node.mig_tables if table is not None}
    for text in request.mig:
        wish = slice_of(text)
        if any(wish.on(table) is not None for table in tables):
            continue
        at = (*path, "mig", text)
        if not tables:
            rule = "no GPU of the cluster can be cut into MIG instances"
            yield loaded.fault(at, rule, value=text, key=True)
        elif not wish.profile:
            rule = "no MIG profile of the cluster's GPUs is as large"
            yield loaded.fault(at, rule, "Ask for whole GPUs", value=text, key=True)
        else:
            table = min(tables, key=lambda t: t.model)
            try:
                table.profile(wish.profile)
            except UnknownMigProfileError as error:
                hint = f"Did you mean {' or '.join(error.near)}?" if error.near else ""
                yield loaded.fault(at, error.rule, hint, value=text, key=True)


def mig_gpu_faults(
    loaded: LoadedSpec, entry: MigGpuSpec, path: Path, model: str | None
) -> Iterator[SpecFault]:
    """What is wrong with the instances of one GPU; of unknown models nothing is known."""
    known = gpu_model(model)
    if known is None:
        return
    try:
        table = mig_table(known.name)
    except UnknownMigModelError as error:
        # A card that can be cut, only that nobody knows where: its instances are not looked at.
        if not known.supports_mig:
            yield loaded.fault((*path, "gpu"), f"a {known.name}: {error.reason}")
        return
    layout: list[Instance] = []
    for number, instance in enumerate(entry.instances):
        at = (*path, "instances", number)
        try:
            profile = table.profile(instance.profile)
        except UnknownMigProfileError as error:
            hint = f"Did you mean {' or '.join(error.near)}?" if error.near else ""
            yield loaded.fault((*at, "profile"), error.rule, hint)
            continue
        if instance.start is None:
            hint = "nvidia-smi mig -lgi prints it as Start"
            yield loaded.fault(at, "the start of an instance is not its number", hint)
            continue
        layout.append(Instance(instance.start, profile.name))
        error_found = clash(table, layout)
        if error_found is not None:
            layout.pop()
            yield loaded.fault((*at, "start"), str(error_found), _starts_hint(error_found))


def _starts_hint(error: MigLayoutError) -> str:
    return "nvidia-smi mig -lgi prints Start:Size" if len(error.instances) > 1 else ""


def existing(
    entries: Sequence[MigGpuSpec], models: Sequence[str | None]
) -> tuple[MigInstance, ...]:
    """The instances that exist, of GPUs whose profiles are known."""
    return tuple(
        MigInstance(gpu=entry.gpu, instance=instance, used_by=spec.used_by or "")
        for entry in entries
        for spec in entry.instances
        if (instance := _instance(spec, models[entry.gpu])) is not None
    )


def _instance(spec: MigInstanceSpec, model: str | None) -> Instance | None:
    table = mig_table_or_none(model)
    if table is None or spec.start is None:
        return None
    return Instance(spec.start, table.profile(spec.profile).name)


def cuttable(models: Sequence[str | None]) -> frozenset[int]:
    """The GPUs whose layouts are known."""
    return frozenset(gpu for gpu, model in enumerate(models) if mig_table_or_none(model))


def demand_of(loaded: LoadedSpec) -> tuple[Item, ...]:
    """The kinds of demand that a fleet is cut for."""
    return tuple(
        Item(
            name=kind.name,
            slices=slices_of(kind),
            gpus=kind.gpus,
            count=kind.count,
            weight=kind.weight,
            variation_ratio=float(kind.variation),
        )
        for kind in loaded.spec.mig.demand
    )
