"""Whatever the objects: a spec or a clear error, never a traceback; no GPU twice."""

from __future__ import annotations

from hypothesis import given, settings

from kube.importer import import_cluster
from specs.compile import compile_spec
from specs.errors import SpecErrors
from specs.loader import parse_spec
from tests.damage import damaged
from tests.kube.objects import GPU, gang, node, pod, snapshot, thing

TEMPLATE = {
    "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: "2"}}}]},
}
CLAIM = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
CLUSTER = [
    node("n1", 8, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "rack": "r1"}),
    node("n2", 8, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"}),
    node("n3", 0, more={"nvidia.com/mig-1g.10gb": "7"}),
    pod("r", 2, on="n1", owner=("Job", "r")),
    pod("s", 1, on="n2"),
    pod("m", 1, on="n3", resource="nvidia.com/mig-1g.10gb"),
    pod("f", on="n1", annotations={"gpu-fraction": "0.5"}, labels={"runai-gpu-group": "g"}),
    pod("fm", on="n1", annotations={"gpu-memory": "1000", "gpu-fraction-num-devices": "2"}),
    *gang("g", 2, 1, tolerations=[{"key": "a", "operator": "Exists"}]),
    pod(
        "p",
        1,
        nodeSelector={"rack": "r1"},
        schedulingGates=[{"name": "x"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "rack", "operator": "In", "values": ["r1", "2"]}
                            ]
                        }
                    ]
                }
            }
        },
        initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {}}],
    ),
    thing("PodGroup", "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 2}, namespace="team"),
    thing("PriorityClass", "scheduling.k8s.io/v1", "high", {}, value=5),
    thing(
        "Workload",
        "kueue.x-k8s.io/v1beta1",
        "w",
        {"queueName": "q", "podSets": [{"name": "m", "count": 2, "template": TEMPLATE}]},
        namespace="team",
    ),
    thing(
        "ClusterQueue",
        "kueue.x-k8s.io/v1beta1",
        "cq",
        {
            "cohort": "c",
            "namespaceSelector": {},
            "resourceGroups": [
                {"flavors": [{"name": "f", "resources": [{"name": GPU, "nominalQuota": 4}]}]}
            ],
        },
    ),
    thing(
        "Cohort",
        "kueue.x-k8s.io/v1beta2",
        "c",
        {
            "parentName": "top",
            "resourceGroups": [
                {
                    "flavors": [
                        {
                            "resources": [
                                {"name": GPU, "nominalQuota": 2, "lendingLimit": 1},
                                {"name": "cpu", "nominalQuota": 2, "borrowingLimit": 1},
                            ]
                        }
                    ]
                }
            ],
        },
    ),
    thing("Cohort", "kueue.x-k8s.io/v1beta2", "top", {"parentName": "d"}),
    thing("Queue", "scheduling.volcano.sh/v1beta1", "c", {"parent": "cq", "weight": 2}),
    thing(
        "Queue",
        "scheduling.run.ai/v2",
        "cq",
        {
            "parentQueue": "c",
            "resources": {"gpu": {"quota": 1.5, "limit": -1}, "cpu": {"limit": 1000}},
        },
    ),
    thing(
        "Job",
        "batch.volcano.sh/v1alpha1",
        "vj",
        {"minAvailable": 1, "tasks": [{"replicas": 2, "template": TEMPLATE}]},
    ),
    thing("ResourceFlavor", "kueue.x-k8s.io/v1beta2", "f", {"nodeLabels": {"rack": "r1"}}),
    thing("RayCluster", "ray.io/v1", "r-raycluster-x", {}, owner=("RayJob", "r")),
    thing(
        "Topology",
        "kueue.x-k8s.io/v1beta2",
        "t",
        {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    ),
    thing("LocalQueue", "kueue.x-k8s.io/v1beta1", "q", {"clusterQueue": "cq"}, namespace="team"),
    thing("Job", "batch/v1", "j", {"parallelism": 2, "suspend": True, "template": TEMPLATE}),
    thing(
        "JobSet", "jobset.x-k8s.io/v1", "js", {"replicatedJobs": [{"name": "a", "template": {}}]}
    ),
    thing(
        "ResourceSlice",
        "resource.k8s.io/v1",
        "s",
        {
            "driver": "gpu.nvidia.com",
            "nodeName": "n4",
            "pool": {"name": "n4", "generation": 1},
            "devices": [
                {
                    "name": f"gpu-{i}",
                    "attributes": {"type": {"string": "gpu"}, "productName": {"string": "H100"}},
                    "taints": [{"key": "x", "effect": "NoExecute"}] if i == 3 else [],
                }
                for i in range(4)
            ],
        },
    ),
    node("n4"),
    thing(
        "ResourceClaim",
        "resource.k8s.io/v1",
        "c",
        CLAIM,
        namespace="team",
        status={
            "allocation": {
                "devices": {
                    "results": [
                        {
                            "request": "r",
                            "driver": "gpu.nvidia.com",
                            "pool": "n4",
                            "device": "gpu-0",
                        }
                    ]
                }
            }
        },
    ),
    thing("ResourceClaimTemplate", "resource.k8s.io/v1", "ct", {"spec": CLAIM}, namespace="team"),
    *(
        pod(f"d{i}", on="n4", resourceClaims=[{"name": "g", "resourceClaimName": "c"}])
        for i in range(2)
    ),
    pod(
        "dp",
        resourceClaims=[{"name": "g", "resourceClaimTemplateName": "ct"}],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "pvc"}}],
    ),
    thing("PersistentVolumeClaim", "v1", "pvc", {"volumeName": "pv"}, namespace="team"),
    thing(
        "PersistentVolume",
        "v1",
        "pv",
        {
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}
                    ]
                }
            }
        },
    ),
    thing("Topology", "kueue.x-k8s.io/v1beta1", "t", {"levels": [{"nodeLabel": "rack"}]}),
]


@settings(max_examples=150)
@given(damaged(CLUSTER))
def test_a_damaged_cluster_is_a_sound_spec_or_a_clear_error(objects):
    try:
        text = import_cluster(snapshot(objects)).text
    except SpecErrors:
        return  # clear: each fault has its object, field and rule

    problem = compile_spec(parse_spec(text)).problem

    held = [(r.node, gpu) for job in problem.running for r in job.replicas for gpu in r.gpus]
    load = {}
    for job in problem.running:
        for replica in job.replicas:
            for gpu in replica.gpus:
                load[replica.node, gpu] = load.get((replica.node, gpu), 0) + replica.share_milli
    assert len(held) >= len(load)
    assert all(milli <= 1000 for milli in load.values())
    assert all(
        len({job.name for job in jobs}) == len(jobs) for jobs in (problem.jobs, problem.running)
    )
