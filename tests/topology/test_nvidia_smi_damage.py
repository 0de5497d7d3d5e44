"""What terminals, loggers and pastes do to the matrix: repaired exactly, or refused with a line."""

from pathlib import Path

import pytest

from topology.errors import TopologyParseError
from topology.graph import Fabric
from topology.parsers.nvidia_smi import parse_topo

DATA = Path(__file__).resolve().parents[1] / "data" / "topo"


def read(name):
    path = DATA / f"{name}.txt"
    return parse_topo(path.read_bytes().decode(), name=path.name)


def links(topology):
    return [str(link) for _, _, link, _ in topology.edges()]


def refusal(name):
    with pytest.raises(TopologyParseError) as caught:
        read(name)
    return caught.value


def test_soc_of_the_first_drivers_means_sys():
    topology = read("cuda7_soc")

    assert links(topology) == ["PHB", "SYS", "SYS"]
    assert topology.nics == {"mlx4_0": "mlx4_0"}
    assert topology.numa_affinity == {0: None, 1: None, 2: None}
    assert topology.warnings == ()


@pytest.mark.parametrize(("name", "link"), [("ansi_after_tab", "PIX"), ("ansi_without_esc", "NV4")])
def test_underlining_of_the_header_is_ignored(name, link):
    topology = read(name)

    assert links(topology) == [link]
    assert topology.numa_affinity == {0: "0", 1: "0"}


def test_names_and_titles_may_share_a_field():
    topology = read("lost_tab_shared_field")

    assert list(topology.nics) == ["mlx5_0", "mlx5_bond_0"]
    assert topology.nearest_nics(1)[1] == ("mlx5_bond_0",)
    assert topology.cpu_affinity == {0: "0-3", 1: "4-7"}
    assert topology.numa_affinity == {0: "0", 1: "1"}


def test_cells_that_ran_together_are_split_where_the_count_comes_out():
    topology = read("run_together")

    assert links(topology) == ["NODE", "NODE", "PIX"]
    assert [warning.split(":")[0] for warning in topology.warnings] == ["line 2", "line 4"]


def test_cells_that_cannot_be_split_are_refused_with_their_line():
    error = refusal("run_together_short")

    assert error.line == 3
    assert error.value == "EL"


def test_lines_broken_by_the_terminal_are_joined():
    topology = read("wrapped_lines")

    assert list(topology.nics) == ["NIC0", "NIC1"]
    assert links(topology) == ["NV12", "SYS", "SYS"]
    assert str(topology.device_link("GPU0", "NIC0")) == "NODE"
    assert topology.cpu_affinity[0] == "0-15,32-47"
    assert topology.numa_affinity == {0: "0", 1: "0", 2: "1"}
    assert len(topology.warnings) == 2


def test_missing_nic_rows_are_filled_from_the_other_side():
    topology = read("nic_rows_cut")

    assert str(topology.device_link("NIC1", "GPU1")) == "PIX"
    assert str(topology.device_link("NIC2", "NIC0")) == "SYS"
    assert topology.device_link("NIC1", "NIC2") is None
    (warning,) = topology.warnings
    assert "NIC2, NIC1" in warning


def test_a_missing_gpu_row_is_refused():
    error = refusal("gpu_row_missing")

    assert (error.line, error.source) == (1, "gpu_row_missing.txt")
    assert error.value == "GPU2"


def test_a_short_gpu_row_is_refused():
    error = refusal("gpu_row_short")

    assert error.line == 3
    assert str(error).startswith("gpu_row_short.txt:3: ")
    assert "2 of 3 cells" in error.rule


def test_prompts_and_other_output_around_it_do_not_matter():
    topology = read("noise_around")

    assert links(topology) == ["NV4"]
    assert topology.warnings == ()


def test_a_prefix_of_a_logger_does_not_matter():
    assert links(read("logger_prefix")) == ["NV4"]


def test_cpu_affinity_may_be_empty_and_numa_counts_only_as_one_number():
    topology = read("container_cpus")

    assert topology.cpu_affinity == {0: None, 1: "5", 2: "5,69", 3: None}
    assert topology.numa_affinity == {0: "0", 1: None, 2: None, 3: "3"}


def test_an_empty_cpu_affinity_is_understood_without_tabs():
    topology = read("blanks_empty_cpus")

    assert topology.cpu_affinity == {0: None, 1: None}
    assert topology.numa_affinity == {0: "0", 1: "1"}


def test_a_matrix_that_is_not_symmetric_is_refused():
    error = refusal("asymmetric")

    assert error.line == 4
    assert "GPU1 to GPU2 is SYS in line 3" in error.rule


def test_p2p_output_is_refused_by_name():
    error = refusal("p2p")

    assert "topo -p2p" in error.rule
    assert error.hint == "run nvidia-smi topo -m"


@pytest.mark.parametrize("name", ["mp_by_command", "mp_by_legend"])
def test_output_without_nvlink_by_choice_is_warned_about(name):
    (warning,) = read(name).warnings

    assert "topo -mp" in warning


def test_nic_legend_names_the_devices():
    topology = read("nic_legend")

    assert topology.nics == {"NIC0": "mlx5_10", "NIC1": "mlx5_bond_0", "hfi1_0": "hfi1_0"}


def test_of_two_matrices_the_first_is_read():
    topology = read("two_matrices")

    assert links(topology) == ["NV4"]
    assert "line 5" in topology.warnings[0]


def test_a_gpu_that_lost_the_switch_leaves_it_a_switch():
    row = "\t".join(["NV18"] * 6)
    lines = ["\t" + "\t".join(f"GPU{i}" for i in range(8)) + "\tCPU Affinity"]
    for gpu in range(7):
        cells = row.split("\t")
        cells.insert(gpu, " X ")
        lines.append("\t".join([f"GPU{gpu}", *cells, "SYS", "0-3"]))
    lines.append("\t".join(["GPU7", *["SYS"] * 7, " X ", "0-3"]))

    topology = parse_topo("\n".join(lines))

    assert topology.fabric is Fabric.SWITCH
    assert topology.islands == (tuple(range(7)),)
    assert not topology.is_uniform


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "no matrix"),
        ("hello\n", "no matrix"),
        ("NVIDIA-SMI has failed because it could not talk to the driver.\n", "no matrix"),
        ("\tGPU1\tCPU Affinity\nGPU1\t X \t0\n", "no matrix"),
        ("\tGPU0\tGPU2\tCPU Affinity\n", "without a gap"),
        ("\tGPU0\tmlx5_0\tmlx5_0\tCPU Affinity\n", "two columns"),
        ("\t" + "\t".join(f"GPU{i}" for i in range(65)) + "\tCPU Affinity\n", "at most 64 GPUs"),
        ("x" * (1 << 20) + "y", "at most 1 MiB"),
        ("\tGPU0\tCPU Affinity\nGPU0\t X \t0\nGPU0\t X \t0\n", "already in line 2"),
        ("\tGPU0\tCPU Affinity\nGPU0\tSYS\t0\n", "X belongs"),
        ("\tGPU0\tCPU Affinity\nGPU0\t X \tSYS\t0\n", "cannot follow"),
        ("\tGPU0\tCPU Affinity\nGPU0\t X \t0\nGPU1\tSYS\t0\n", "no column"),
        ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV\t0\n", "NV#"),
        ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV0\t0\n", "NV#"),
        ("       GPU0         GPU1\nGPU0   0            15\nGPU1   15           0\n", "AMD"),
    ],
)
def test_other_texts_are_refused_with_the_rule(text, rule):
    with pytest.raises(TopologyParseError, match=rule):
        parse_topo(text)


def test_models_give_memory_and_bandwidth():
    text = (DATA / "ansi_without_esc.txt").read_text()

    known = parse_topo(text, gpu_models="NVIDIA RTX A6000")
    unknown = parse_topo(text)

    assert known.gpu_models == ("RTX-A6000-48GB", "RTX-A6000-48GB")
    assert known.gpu_memory_mib == (49140, 49140)
    assert (known.gb_s(0, 1), unknown.gb_s(0, 1)) == (56, 100)
    assert unknown.gpu_models == (None, None)


def test_another_number_of_models_is_refused():
    with pytest.raises(TopologyParseError, match="3 GPU models for the 2 GPUs"):
        parse_topo((DATA / "ansi_without_esc.txt").read_text(), gpu_models=["a", "b", "c"])
