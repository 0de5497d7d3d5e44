"""Fail unless the generic names that we ship are ours alone in this environment."""

import sys
from importlib.metadata import packages_distributions

OURS = ("cli", "commands", "report", "kube", "specs", "simulator", "solver", "topology")
owners = packages_distributions()
foreign = {name: owners.get(name, []) for name in OURS if set(owners.get(name, [])) != {"unstrand"}}
sys.exit(f"not ours alone: {foreign}" if foreign else 0)
