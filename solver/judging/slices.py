"""MIG instances: that they serve, that they fit, and how many GPUs are cut anew."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from solver.cluster import Node
from solver.judging.faults import Rule, Violation
from solver.judging.placed import Placed, Start
from solver.matching import matched
from solver.problem import Problem
from solver.solution import PlacedInstance
from solver.workload import (
    Slice,
)
from topology.mig.layouts import Instance
from topology.mig.tables import MigTable, Profile


def check_slices(_problem: Problem, placed: Placed) -> Iterator[Violation]:
    """A replica has one instance for each slice that it asks for, of a profile that will do."""
    for start in placed.arrivals:
        given = [e for e in start.at.instances if 0 <= e.gpu < start.node.n_gpus]
        wishes = [wish for wish, count in start.shape.slices for _ in range(count)]
        serves = partial(_serves, start, wishes, given)
        serving = matched(len(wishes), len(given), serves)
        for number, wish in enumerate(wishes):
            if number not in serving.values():
                text = f"{start}: has no instance for a slice {wish}"
                yield Violation(Rule.MIG, start.job.name, text)
        if left := [entry for number, entry in enumerate(given) if number not in serving]:
            shown = ", ".join(f"{e.instance} on GPU {e.gpu}" for e in left)
            text = f"{start}: is given {shown}, which it does not ask for"
            yield Violation(Rule.MIG, start.job.name, text)


def _serves(
    start: Start, wishes: Sequence[Slice], entries: Sequence[PlacedInstance], wish: int, entry: int
) -> bool:
    wanted, given = wishes[wish], entries[entry]
    table = start.node.mig_tables[given.gpu]
    if table is None or given.instance.profile not in table.by_name:
        return False
    models = start.shape.gpu_models
    if models and start.node.topology.gpu_models[given.gpu] not in models:
        return False
    profile = table.by_name[given.instance.profile]
    if wanted.profile:
        return wanted.on(table) == profile
    return profile.memory_mib >= wanted.memory_mib and profile.compute >= wanted.compute


def check_geometry(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Slot by slot: who has it. Starts, mosts and media engines are those of the tables."""
    made: dict[tuple[str, int], list[tuple[str, Instance]]] = defaultdict(list)
    whole: set[tuple[str, int]] = set()
    for start in placed.arrivals:
        whole.update((start.node.name, gpu) for gpu in start.gpus)
        for entry in start.at.instances:
            if 0 <= entry.gpu < start.node.n_gpus:
                made[start.node.name, entry.gpu].append((start.job.name, entry.instance))
    for job in problem.running:
        for replica in placed.staying(job):
            whole.update((replica.node, gpu) for gpu in replica.gpus)
    for (name, gpu), given in sorted(made.items()):
        node = problem.node_by_name[name]
        table = node.mig_tables[gpu]
        which = f'GPU {gpu} of node "{name}"'
        if table is None:
            yield Violation(Rule.MIG, name, f"{which}: cannot be cut into MIG instances")
            continue
        if gpu in node.unhealthy_gpus:
            yield Violation(Rule.MIG, name, f"{which}: is unhealthy")
        if gpu not in node.mig_gpus and gpu not in node.cuttable_gpus:
            yield Violation(Rule.MIG, name, f"{which}: may not be cut into MIG instances")
        if (name, gpu) in whole:
            yield Violation(Rule.MIG, name, f"{which}: is cut while somebody has it whole")
        yield from _overlaps(node, gpu, table, given)


def _overlaps(
    node: Node, gpu: int, table: MigTable, given: list[tuple[str, Instance]]
) -> Iterator[Violation]:
    which = f'GPU {gpu} of node "{node.name}"'
    held = [(h.used_by, h.instance) for h in node.instances if h.gpu == gpu and h.used_by]
    owner: dict[int, str] = {}
    kinds: list[Profile] = []
    for who, instance in [*held, *given]:
        profile = table.by_name.get(instance.profile)
        if profile is None:
            text = f"{which}: {table.model} has no profile {instance.profile}"
            yield Violation(Rule.MIG, node.name, text)
            continue
        kinds.append(profile)
        if instance.start not in profile.starts:
            text = f"{which}: {instance} begins at no legal slot ({list(profile.starts)})"
            yield Violation(Rule.MIG, node.name, text)
        for slot in range(instance.start, instance.start + profile.size):
            if slot in owner:
                text = f'{which}: slot {slot} is given to "{owner[slot]}" and "{who}" ({instance})'
                yield Violation(Rule.MIG, node.name, text)
            owner[slot] = who
    for profile, count in Counter(kinds).items():
        if count > profile.most:
            text = f"{which}: has {count} instances {profile.name}, at most {profile.most} can be"
            yield Violation(Rule.MIG, node.name, text)
    media = sum(profile.engines == "media" for profile in kinds)
    greedy = sum(profile.engines == "all" for profile in kinds)
    modest = sum(profile.engines == "none" for profile in kinds)
    if media > table.media or greedy > 1 or (greedy and greedy + modest < len(kinds)):
        text = f"{which}: its instances want more media engines than it has"
        yield Violation(Rule.MIG, node.name, text)


def check_recut(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """No more GPUs are cut anew than one plan may."""
    if problem.most_recut_gpus is None:
        return
    changed: set[tuple[str, int]] = set()
    for start in placed.arrivals:
        there = {(h.gpu, h.instance) for h in start.node.instances if not h.used_by}
        for entry in start.at.instances:
            if (entry.gpu, entry.instance) not in there:
                changed.add((start.node.name, entry.gpu))
        changed |= {
            (start.node.name, gpu)
            for gpu in start.gpus
            if gpu in start.node.mig_mode and gpu not in start.node.mig_gpus
        }
    if len(changed) > problem.most_recut_gpus:
        text = (
            f"the plan changes the geometry of {len(changed)} GPUs,"
            f" at most {problem.most_recut_gpus} may be"
        )
        yield Violation(Rule.RECUT, problem.name, text)
