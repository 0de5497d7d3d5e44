"""From objects to a plan, its steps, and the objects once they are applied."""

from __future__ import annotations

from kube.checking import check_holds
from kube.files import step_files
from kube.steps import plan_steps
from report.json_report import plan_report, to_json
from solver.api import solve
from solver.options import SolveOptions
from solver.solution import Plan
from solver.verify import explain_violations, verify
from specs.compile import compile_spec
from specs.loader import parse_spec
from specs.plans import load_plan
from tests.kube.cluster_model import Cluster
from tests.kube.objects import Read, snapshot


def planned(objects, folder):
    """Import and solve; the plan as it is saved, and what was imported."""
    told = Read(snapshot(objects))
    result = solve(told.problem, SolveOptions(workers=1, time_limit_s=10), "cp-sat")
    path = folder / "plan.json"
    path.write_text(to_json(plan_report(result, told.imported.text)))
    return load_plan(path), told


def realised(objects, plan, imported, folder):
    """The cluster after the steps of the plan, imported again."""
    found = plan_steps(plan, imported)
    check_holds(plan, compile_spec(parse_spec(imported.text)).problem)
    folder.mkdir(exist_ok=True)
    for name, text in step_files(found).items():
        (folder / name).write_text(text)
    cluster = Cluster(objects)
    cluster.apply(folder)
    return Read(snapshot(list(cluster.objects.values()))), found


def running_on(told):
    """Pod to node of all that runs."""
    return {p.full_name: p.node for pods in told.imported.running.values() for p in pods}


def check_round_trip(objects, folder):
    """Import, solve, export, apply, import: verify holds and the plan has come true."""
    plan, told = planned(objects, folder)

    after, found = realised(objects, plan, told.imported, folder / "steps")

    broken = verify(after.problem, Plan())
    assert not broken, explain_violations(broken)
    gone = {
        told.imported.running[job][replica].full_name
        for job, replicas in plan.displaced.items()
        for replica in replicas
    }
    # Pods that hold more GPUs than a node has left count there: no kubelet takes others then.
    left = {words.split()[0] for words in found.remarks if "nvidia.com/gpu, and the node" in words}
    assert gone or not left
    wanted = {}
    for place in plan.placements:
        if any(p.full_name in left for t in told.imported.pending[place.job].tasks for p in t.pods):
            continue
        task = next(t for t in told.imported.pending[place.job].tasks if t.role == place.role)
        wanted[task.pods[place.replica].full_name] = place.node
    assert wanted.items() <= running_on(after).items()
    kept = {name: node for name, node in running_on(told).items() if name not in gone}
    assert kept.items() <= running_on(after).items()
    assert not gone & running_on(after).keys()
    if not gone:
        waited = {place.job for place in plan.placements}
        assert len(after.problem.jobs) == len(told.problem.jobs) - len(waited)
    return plan, found
