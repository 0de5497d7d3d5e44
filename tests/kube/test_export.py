"""Files and configurations of an export, and the way there and back from the command line."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from commands import output
from kube.files import command, step_files
from kube.step import Step, Steps
from specs.errors import SpecErrors
from tests.commands.running import unstrand
from tests.kube.exporting import check_round_trip
from tests.kube.objects import GPU, listed, node, pod, read, thing


@pytest.fixture
def saved(tmp_path):
    objects = [node("n1", 4), pod("p", 1)]
    (tmp_path / "objects.json").write_bytes(listed(objects))
    done = unstrand(
        "import", "kubernetes", tmp_path / "objects.json", "--save", tmp_path / "c.yaml"
    )
    assert done.code == 0
    done = unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")
    assert done.code == 0
    return tmp_path


def test_without_a_folder_the_steps_are_only_shown(saved):
    done = unstrand(
        "export", saved / "plan.json", "--to", "kubernetes", "--objects", saved / "objects.json"
    )

    assert (done.code, done.out) == (0, "bind pod team/p to n1\n")


def test_the_files_of_an_export_do_not_mix_with_others(saved):
    words = ["export", saved / "plan.json", "--to", "kubernetes"]
    words += ["--objects", saved / "objects.json", "--save", saved / "steps"]

    assert unstrand(*words).code == 0
    names = sorted(path.name for path in (saved / "steps").iterdir())
    assert names == ["001-bind-team-p.json", "apply.sh", "steps.json"]
    assert unstrand(*words).code == 2
    subprocess.run(["sh", "-n", saved / "steps" / "apply.sh"], check=True)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_export_that_ends_early_leaves_no_part_of_it(saved, there, end, monkeypatch):
    folder = saved / "steps"
    if there:
        folder.mkdir()
    write = output.write_file

    def ends(path, content):
        if path.name == "apply.sh":
            raise end
        write(path, content)

    monkeypatch.setattr(output, "write_file", ends)
    words = ["export", saved / "plan.json", "--to", "kubernetes"]
    words += ["--objects", saved / "objects.json", "--save", folder]

    assert unstrand(*words).code != 0
    assert folder.exists() == there
    assert not there or not list(folder.iterdir())


def test_a_plan_that_does_not_hold_any_more_is_refused(saved):
    objects = [node("n1", 4), pod("new", 4, on="n1"), pod("p", 1)]
    (saved / "later.json").write_bytes(listed(objects))
    words = ["export", saved / "plan.json", "--to", "kubernetes", "--save", saved / "steps"]

    done = unstrand(*words, "--objects", saved / "later.json")

    assert done.code == 3
    assert "does not hold in the cluster of these objects" in done.err
    assert not (saved / "steps").exists()


def test_steps_need_the_objects(saved):
    done = unstrand("export", saved / "plan.json", "--to", "kubernetes")

    assert done.code == 2
    assert "such as --objects cluster.json" in done.err


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("mig-parted", "note: no node of the plan has MIG: the configuration is empty"),
        ("device-plugin", "note: no node of the plan shares GPUs: the configuration is empty"),
    ],
)
def test_an_empty_configuration_is_said_to_be_empty(saved, to, said):
    done = unstrand("export", saved / "plan.json", "--to", to)

    assert done.code == 0
    assert said in done.err


def test_a_mig_layout_becomes_a_configuration_and_labels(tmp_path):
    spec = """
    cluster:
      pools: [{name: m, count: 2, gpus: 2, gpu_model: A100-80GB,
               mig: [{gpu: 1, instances: [{profile: 1g.10gb, start: 4},
                 {profile: 1g.10gb, start: 5}, {profile: 3g.40gb, start: 0}]}]}]
    jobs: [{name: j, gpus: 1}]
    """
    (tmp_path / "c.yaml").write_text(spec)
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")

    done = unstrand(
        "export", tmp_path / "plan.json", "--to", "mig-parted", "--save", tmp_path / "out"
    )

    assert done.code == 0
    document = yaml.safe_load((tmp_path / "out" / "mig-parted.yaml").read_text())
    assert document == {
        "version": "v1",
        "mig-configs": {
            "all-disabled": [{"devices": "all", "mig-enabled": False}],
            "unstrand-1": [
                {"devices": [0], "mig-enabled": False},
                {
                    "devices": [1],
                    "mig-enabled": True,
                    "mig-devices": {"1g.10gb": 2, "3g.40gb": 1},
                },
            ],
        },
    }
    script = (tmp_path / "out" / "label-nodes.sh").read_text()
    assert "kubectl label --overwrite node -- m-1 nvidia.com/mig.config=unstrand-1" in script


def test_a_plan_comes_through_a_pipe(tmp_path):
    spec = "cluster: {nodes: [{name: n, gpus: 1, gpu_model: A100-80GB}]}\n"
    (tmp_path / "c.yaml").write_text(spec + "jobs: [{name: j, mig: {3g.40gb: 1}}]\n")
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")
    named = unstrand("export", tmp_path / "plan.json", "--to", "mig-parted")

    piped = unstrand(
        "export", "-", "--to", "mig-parted", stdin=(tmp_path / "plan.json").read_text()
    )
    spoiled = unstrand("export", "-", "--to", "mig-parted", stdin="{")

    assert (piped.code, piped.out) == (0, named.out)
    assert (spoiled.code, spoiled.err.startswith("<stdin>:1:2: no JSON")) == (3, True)


def test_instances_that_the_plan_makes_are_in_the_configuration(tmp_path):
    spec = "cluster: {nodes: [{name: n, gpus: 1, gpu_model: A100-80GB}]}\n"
    (tmp_path / "c.yaml").write_text(spec + "jobs: [{name: j, mig: {3g.40gb: 1}}]\n")
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")

    unstrand("export", tmp_path / "plan.json", "--to", "mig-parted", "--save", tmp_path / "out")

    document = yaml.safe_load((tmp_path / "out" / "mig-parted.yaml").read_text())
    (entry,) = document["mig-configs"]["unstrand-1"]
    assert entry == {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.40gb": 1}}


def test_pods_with_mig_instances_go_there_and_back(tmp_path):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "2"}
    slices = {"nvidia.com/mig-3g.40gb": "2"}
    resource = "nvidia.com/mig-3g.40gb"
    objects = [
        node("n1", 1, labels=labels, more=slices),
        pod("has", 1, on="n1", resource=resource, owner=("Job", "has")),
        pod("wants", 1, resource=resource),
        pod("whole", 1),
        pod("late", 2, resource=resource),
    ]

    plan, _ = check_round_trip(objects, tmp_path)

    assert [place.job for place in plan.placements] == ["team/wants", "team/whole"]


def test_that_instances_are_where_the_import_assumed_them_is_said(tmp_path):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "2"}
    objects = [node("n1", 1, labels=labels, more={"nvidia.com/mig-3g.40gb": "2"})]
    (tmp_path / "objects.json").write_bytes(listed(objects))
    unstrand("import", "kubernetes", tmp_path / "objects.json", "--save", tmp_path / "c.yaml")
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")

    done = unstrand("export", tmp_path / "plan.json", "--to", "mig-parted")

    assert done.code == 0
    assert "compare with nvidia-smi -L on the node before you label it" in done.err


def test_shares_become_a_time_slicing_configuration(tmp_path):
    jobs = "jobs: [{name: j, gpus: 0.25}, {name: k, gpus: 0.5}]\n"
    spec = "cluster: {nodes: [{name: n, gpus: 1}]}\n" + jobs
    (tmp_path / "c.yaml").write_text(spec)
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")

    done = unstrand(
        "export", tmp_path / "plan.json", "--to", "device-plugin", "--save", tmp_path / "o"
    )

    config = yaml.safe_load((tmp_path / "o" / "device-plugin.yaml").read_text())["data"]
    slicing = yaml.safe_load(config["shared-by-4"])["sharing"]["timeSlicing"]
    assert slicing["resources"] == [{"name": GPU, "replicas": 4}]
    assert yaml.safe_load(config["default"]) == {"version": "v1"}, "for nodes without a label"
    assert "shares of 0.25, 0.5" in done.err


def test_levels_become_a_topology_with_labels_where_nodes_have_none(tmp_path):
    spec = """
    cluster:
      levels: [block, rack]
      nodes: [{name: n, gpus: 1, location: {block: b, rack: r}}, {name: m, location: {block: b}}]
    jobs: [{name: j, gpus: 1}]
    """
    (tmp_path / "c.yaml").write_text(spec)
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")
    words = ["--to", "kueue-topology", "--level", "block=dc/block", "--save", tmp_path / "o"]

    done = unstrand("export", tmp_path / "plan.json", *words)
    wrong = unstrand("export", tmp_path / "plan.json", "--to", "kueue-topology", "--level", "x")

    assert done.code == 0
    assert "note: labels of our own for rack: --objects or --level NAME=LABEL" in done.err
    assert "note: nodes without all levels, which Kueue leaves out: 1 (m)" in done.err
    assert (wrong.code, "is not NAME=LABEL" in wrong.err) == (2, True)
    levels = yaml.safe_load((tmp_path / "o" / "topology.yaml").read_text())["spec"]["levels"]
    assert [level["nodeLabel"] for level in levels] == [
        "dc/block",
        "unstrand/rack",
        "kubernetes.io/hostname",
    ]
    assert "unstrand/rack=r" in (tmp_path / "o" / "label-nodes.sh").read_text()


EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def test_the_shipped_spec_is_what_the_shipped_dump_says():
    done = unstrand("import", "kubernetes", EXAMPLES / "kubernetes.json")

    assert done.out == (EXAMPLES / "kubernetes.yaml").read_text()


def test_the_shipped_dump_goes_there_and_back(tmp_path):
    objects = json.loads((EXAMPLES / "kubernetes.json").read_text())["items"]

    plan, _ = check_round_trip(objects, tmp_path)

    assert [place.job for place in plan.placements] == ["research/notebook"]


def test_standard_input_is_read_and_everything_said_goes_to_standard_error():
    text = (EXAMPLES / "kubernetes.json").read_text()

    done = unstrand("import", "kubernetes", "-", stdin=text)

    assert done.out == (EXAMPLES / "kubernetes.yaml").read_text()
    assert "read: nodes (3)" in done.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-"], 3, "there is no Node in it"),
        (["nowhere.json"], 3, "nowhere.json:1:1: cannot be read: No such file"),
        (["-", "-"], 2, "standard input can be read once"),
        (["-", "--level", "rack"], 2, "is not NAME=LABEL"),
        (["-", "--gpu-resource", ""], 2, "no name of a resource"),
        ([], 2, "name a file"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(words, code, said):
    done = unstrand("import", "kubernetes", *words)

    assert done.code == code
    assert said in done.err
    assert done.out == ""


@pytest.mark.parametrize("name", ["../../x", "x;rm -rf y", "$(id)", "-rf", "a\nb", "a/b"])
@pytest.mark.parametrize("where", ["pod", "node", "owner of a pod", "owner of a Workload"])
def test_no_name_of_an_object_reaches_a_path_or_a_shell(name, where):
    owner = ("Job", name)
    spec = {"podSets": [{"name": "m", "count": 1, "template": {"spec": {}}}]}
    odd = {
        "pod": pod(name),
        "node": node(name),
        "owner of a pod": pod("p", owner=owner),
        "owner of a Workload": thing(
            "Workload", "kueue.x-k8s.io/v1beta2", "w", spec, namespace="team", owner=owner
        ),
    }[where]

    with pytest.raises(SpecErrors, match=r"a name of letters, digits|printable characters"):
        read(node("n1", 1), odd)


def test_files_of_steps_stay_in_their_folder():
    step = Step(action="bind", kind="Pod", namespace="..", name="../x:y z", body={}, text="t")

    names = step_files(Steps(steps=[step]))

    assert set(names) == {"001-bind-..-.._x_y_z.json", "steps.json", "apply.sh"}
    assert shlex.split(names["apply.sh"].splitlines()[-1]) == command(step, min(names))
