"""Labels that clusters really carry: places of nodes, GPU models, machine types."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HOSTNAME = "kubernetes.io/hostname"
KUEUE = "kueue.x-k8s.io/"

LEVELS: tuple[tuple[str, str], ...] = (
    ("region", "topology.kubernetes.io/region"),
    ("zone", "topology.kubernetes.io/zone"),
    # topograph 1.x: tiers of any depth, 0 nearest; then its former names, and those before them.
    ("tier-3", "fabric.topograph.run/tier-3"),
    ("tier-2", "fabric.topograph.run/tier-2"),
    ("tier-1", "fabric.topograph.run/tier-1"),
    ("tier-0", "fabric.topograph.run/tier-0"),
    ("datacenter", "network.topology.nvidia.com/datacenter"),
    ("core", "network.topology.nvidia.com/core"),
    ("spine", "network.topology.nvidia.com/spine"),
    ("leaf", "network.topology.nvidia.com/leaf"),
    ("block", "network.topology.nvidia.com/block"),
    # Amazon: 1 is the spine, 3 the leaf. Google, Oracle: blocks with parts.
    ("network-layer-1", "topology.k8s.aws/network-node-layer-1"),
    ("network-layer-2", "topology.k8s.aws/network-node-layer-2"),
    ("network-layer-3", "topology.k8s.aws/network-node-layer-3"),
    ("gce-block", "cloud.google.com/gce-topology-block"),
    ("gce-subblock", "cloud.google.com/gce-topology-subblock"),
    ("gce-host", "cloud.google.com/gce-topology-host"),
    ("network-block", "oci.oraclecloud.com/host.network_block_id"),
    ("oci-rack", "oci.oraclecloud.com/host.rack_id"),
    ("block", "cloud.provider.com/topology-block"),
    ("rack", "cloud.provider.com/topology-rack"),
    ("rack", "topology.kubernetes.io/rack"),
)
"""Levels and the label of each, outermost first; those that nodes carry are taken."""

DOMAINS: tuple[str, ...] = (
    "nvidia.com/gpu.clique",
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "topology.k8s.aws/ultraserver-id",
)
"""Labels of the NVLink domain; the first that a node carries counts.

Of ``nvidia.com/gpu.clique`` (fabric UUID, dot, clique) the whole value is compared: nodes of one
rack in two cliques cannot use NVLink together.
"""

INSTANCE_TYPE = "node.kubernetes.io/instance-type"

ACCELERATORS: tuple[str, ...] = (
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Labels with a GPU model, where no device labels are there.

Where their name is vague (`h100`), a known machine type says more; else it stays opaque.
"""

ACCELERATOR_MODELS: Mapping[str, str] = MappingProxyType(
    {
        # Google has its 80 GB card under another name, nvidia-a100-80gb.
        "nvidia-tesla-a100": "A100-40GB",
        "nvidia-h100-mega-80gb": "H100-80GB",
    }
)
"""Names of clouds for GPU models that do not follow from their words."""

MACHINES: Mapping[str, str] = MappingProxyType(
    {
        "p3dn.24xlarge": "V100-32GB",
        "p4d.24xlarge": "A100-40GB",
        "p4de.24xlarge": "A100-80GB",
        "p5.48xlarge": "H100-80GB",
        "p5e.48xlarge": "H200-141GB",
        "p5en.48xlarge": "H200-141GB",
        "p6-b200.48xlarge": "B200-180GB",
        "a2-highgpu-8g": "A100-40GB",
        "a2-megagpu-16g": "A100-40GB",
        "a2-ultragpu-8g": "A100-80GB",
        "a3-highgpu-8g": "H100-80GB",
        "a3-megagpu-8g": "H100-80GB",
        "a3-ultragpu-8g": "H200-141GB",
        "a4-highgpu-8g": "B200-180GB",
        "a4x-highgpu-4g": "GB200-186GB",
        "Standard_ND96asr_v4": "A100-40GB",
        "Standard_ND96amsr_A100_v4": "A100-80GB",
        "Standard_ND96isr_H100_v5": "H100-80GB",
        "Standard_ND96isr_H200_v5": "H200-141GB",
        "BM.GPU4.8": "A100-40GB",
        "BM.GPU.A100-v2.8": "A100-80GB",
        "BM.GPU.H100.8": "H100-80GB",
        "BM.GPU.H200.8": "H200-141GB",
    }
)
"""GPU model of machine types of public clouds, from their own lists."""

PRESETS: Mapping[tuple[str, int], str] = MappingProxyType(
    {
        ("V100-32GB", 8): "dgx-1v",
        ("V100-32GB", 16): "dgx-2",
        ("A100-40GB", 4): "hgx-a100-4",
        ("A100-40GB", 8): "dgx-a100-40gb",
        ("A100-80GB", 8): "dgx-a100",
        ("H100-80GB", 4): "h100-4",
        ("H100-80GB", 8): "hgx-h100",
        ("H200-141GB", 8): "hgx-h200",
        ("B200-180GB", 8): "hgx-b200",
        ("GB200-186GB", 4): "gb200-nvl72",
        ("MI300X-192GB", 8): "mi300x",
    }
)
"""Machines whose links follow from model and number of their GPUs: what the API does not say."""
