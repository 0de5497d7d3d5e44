"""GPU models are known by their names, and links by what they carry."""

import pytest
import yaml

from tests.paths import SHARED, needs_shared
from topology.hardware import GPU_MODELS, bandwidth_gb_s, canonical_model, gpu_model
from topology.links import Link


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A100-80GB", "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA-A100-SXM4-80GB-SHARED", "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100-80GB"),
        ("NVIDIA-A100-PCIE-40GB", "A100-PCIE-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"),
        ("NVIDIA-H100-80GB-HBM3", "H100-80GB"),
        ("NVIDIA-H100-NVL", "H100-NVL-94GB"),
        ("NVIDIA H100 PCIe", "H100-PCIE-80GB"),
        ("NVIDIA-H200", "H200-141GB"),
        ("NVIDIA-GB200", "GB200-186GB"),
        ("NVIDIA-GH200-480GB", "GH200-96GB"),
        ("Tesla-V100-SXM2-32GB", "V100-32GB"),
        ("Tesla-T4", "T4-16GB"),
        ("NVIDIA-L40S", "L40S-48GB"),
        ("NVIDIA-GeForce-RTX-4090", "RTX-4090-24GB"),
        ("AMD_Instinct_MI300X_OAM", "MI300X-192GB"),
        ("a100-80gb", "A100-80GB"),
        ("h100-94gb", "H100-NVL-94GB"),
        ("b300-269gb", "B300-288GB"),
        ("V100M32", "V100-32GB"),
        ("h20", "H20-96GB"),
    ],
)
def test_a_model_is_known_by_its_labels(text, name):
    assert canonical_model(text) == name


@pytest.mark.parametrize("text", ["G2", "our own card", "V100", "A100", ""])
def test_a_name_that_is_unknown_or_could_be_several_stays_as_it_is(text):
    assert canonical_model(text) == text
    assert gpu_model(text) is None


def test_no_alias_belongs_to_two_models():
    names = [name for row in GPU_MODELS.values() for name in (row.name, *row.aliases)]

    for row in GPU_MODELS.values():
        assert all(canonical_model(alias) == row.name for alias in (row.name, *row.aliases))
    assert len({name.lower() for name in names}) == len(names)


@pytest.mark.parametrize("row", GPU_MODELS.values(), ids=lambda row: row.name)
def test_rows_are_sound(row):
    gib = int(row.name.rsplit("-", 1)[1].removesuffix("GB"))

    assert 0.9 * gib <= row.memory_mib / 1024 <= 1.05 * gib
    assert (row.links > 0) == (row.link_gb_s > 0)
    assert canonical_model(row.name) == row.name


@needs_shared
def test_every_mig_table_belongs_to_a_model_and_is_an_alias():
    tables = yaml.safe_load((SHARED / "data" / "mig_profiles.yaml").read_text())["models"]

    assert {row.mig_table for row in GPU_MODELS.values() if row.supports_mig} == {
        table["id"] for table in tables
    }
    for table in tables:
        assert gpu_model(table["id"]).mig_table == table["id"]


@needs_shared
def test_product_names_of_mig_tables_are_known():
    tables = yaml.safe_load((SHARED / "data" / "mig_profiles.yaml").read_text())["models"]
    unknown = []
    for table in tables:
        for product in table["product_names"]:
            row = gpu_model(product)
            if row is None or row.mig_table != table["id"]:
                unknown.append(product)

    assert unknown == [
        "PG506-96GB (A100-class, same names only)",  # a remark, not a product on sale
        "NVIDIA H20-3e / H20 141GB",  # two names in one; each alone is known
    ]


@pytest.mark.parametrize("model", [None, *GPU_MODELS])
def test_a_nearer_link_is_always_faster(model):
    classes = ["PIX", "PXB", "PHB", "NODE", "SYS"]
    speeds = [bandwidth_gb_s(Link.parse(label), model, model) for label in classes]

    assert speeds == sorted(set(speeds), reverse=True)
    row = gpu_model(model)
    if model is None or row.nvlink_gen:
        narrowest = {4: 4, 5: 6}.get(row.pcie_gen if row else 3, 1)
        assert bandwidth_gb_s(Link.parse(f"NV{narrowest}"), model, model) > speeds[0]


def test_nvlink_is_lanes_times_the_generation():
    assert bandwidth_gb_s(Link.parse("NV2"), "V100-16GB", "V100-32GB") == 50
    assert bandwidth_gb_s(Link.parse("NV12"), "A100-80GB", "A100-80GB") == 300
    assert bandwidth_gb_s(Link.parse("NV18"), "B200-180GB", "B200-180GB") == 900
    assert bandwidth_gb_s(Link.parse("NV4"), "RTX-A6000-48GB", "RTX-A6000-48GB") == 56
    assert bandwidth_gb_s(Link.parse("NV4"), None, "our own card") == 100
    assert bandwidth_gb_s(Link.parse("XGMI"), "MI300X-192GB", "MI300X-192GB") == 64


def test_of_two_models_the_slower_decides():
    assert bandwidth_gb_s(Link.parse("PHB"), "H100-80GB", "V100-32GB") == 12
    assert bandwidth_gb_s(Link.parse("NV1"), "B200-180GB", "H100-80GB") == 25
