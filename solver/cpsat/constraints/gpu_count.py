"""Where the GPUs of a node are interchangeable, they are counted.

Rule, for each such node n with f idle GPUs: ``sum_r gpus_r * x[r, n] + sum_i open[n, i] <= f``,
those that are cut into MIG instances counting as open.

Where a node stands for m interchangeable ones, both bounds count m times.

Strengthening, for every request size s > 1: a replica of g GPUs uses up ``g // s`` of the
``f // s`` blocks of size s, so ``sum_r (gpus_r // s) * x[r, n] <= f // s`` (a Chvátal-Gomory cut;
with sizes 1, 2, 4, 8 these make the relaxation exact on one node).

Reads ``x`` and ``open``. As a reason users see it as ``gpu-short`` or ``gpu-fragmented``.
"""

from __future__ import annotations

from solver.cpsat.devices import Devices, names_gpus
from solver.cpsat.variables import Variables
from solver.linear import weighted


def add_gpu_count(variables: Variables, devices: Devices) -> None:
    """Add the rule on every node whose GPUs are interchangeable."""
    for node in variables.busy_nodes:
        if names_gpus(variables, node):
            continue
        idle = len(variables.state(node).idle_gpus)
        nodes = variables.size(node)
        whole = [(x, r.shape.gpus) for _, r, x in variables.on_node(node) if r.shape.gpus]
        opened = [(o, 1) for o in devices.open.get(node.name, {}).values()]
        cut = [(y, 1) for y in devices.cut(node)]
        if whole or opened or cut:
            variables.require(weighted([*whole, *opened, *cut]), None, nodes * idle)
        for size in sorted({gpus for _, gpus in whole if gpus > 1}):
            blocks = [(x, gpus // size) for x, gpus in whole]
            variables.require(weighted(blocks), None, nodes * (idle // size))
