"""Share groups: who may be put on one GPU with whom.

Rule, for each GPU i of a node and each share group k that could be put on it::

    sum over classes c of group k of shares[n, c, i] <= most_i * group[n, i, k]
    sum_k group[n, i, k] <= 1

Running work that stays has its say in the state of the node: shares of other groups find no room
on its GPUs (`constraints.shares`).

Reads ``shares``, creates ``group``. As a reason users see it as ``gpu-fragmented``.
"""

from __future__ import annotations

from solver.cpsat.devices import DeviceClass, Devices, Loads
from solver.cpsat.variables import Valuation, Variables
from solver.linear import weighted
from solver.workload import ANY_GROUP


def add_share_groups(variables: Variables, devices: Devices) -> None:
    """Add the rule on every GPU that shares of several groups could be put on."""
    for node in variables.busy_nodes:
        by_class = devices.shares.get(node.name, {})
        for gpu in range(node.n_gpus):
            groups: dict[str, list[DeviceClass]] = {}
            for cls, counts in by_class.items():
                if gpu in counts and cls.shape.share_group != ANY_GROUP:
                    groups.setdefault(cls.shape.share_group, []).append(cls)
            if len(groups) < 2:
                continue
            chosen = []
            for group, classes in groups.items():
                name = f"group[{node.name}:{gpu},{group}]"
                mine = variables.boolean(name, _is_there(devices.loads[node.name], gpu, group))
                chosen.append((mine, 1))
                for cls in classes:
                    count = by_class[cls][gpu]
                    most = variables.most_of(count)
                    variables.require(weighted([(count, 1), (mine, -most)]), None, 0)
            variables.require(weighted(chosen), None, 1)


def _is_there(loads: Loads, gpu: int, group: str) -> Valuation:
    return lambda view: int(
        any(n and cls.shape.share_group == group for cls, n in loads(view)[gpu].items())
    )
