"""Whatever is printed, in whichever dialect, is read back the same."""

from contextlib import suppress
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from topology.errors import TopologyParseError
from topology.parsers.nvidia_smi import parse_topo

CELLS = ["NV1", "NV2", "NV4", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"]
CPUS = ["", "0-15", "0-55,112-167", "7", "6,14,22,30"]
NUMAS = ["0", "3", "0-1", "N/A"]
NIC_NAMES = ["mlx5_{}", "NIC{}", "hfi1_{}", "mlx5_bond_{}", "rdmap{}s1"]


@st.composite
def machines(draw):
    gpus = [f"GPU{i}" for i in range(draw(st.integers(1, 8)))]
    pattern = draw(st.sampled_from(NIC_NAMES))
    nics = [pattern.format(i) for i in draw(st.permutations(range(draw(st.integers(0, 4)))))]
    names = [*gpus, *nics]
    links = {pair: draw(st.sampled_from(CELLS)) for pair in combinations(names, 2)}
    for pair in links:
        if pair[1] in nics and links[pair].startswith("NV"):
            links[pair] = "SYS"
    cpus = {gpu: draw(st.sampled_from(CPUS)) for gpu in gpus}
    numas = {gpu: draw(st.sampled_from(NUMAS)) for gpu in gpus}
    return gpus, nics, links, cpus, numas


@st.composite
def dialects(draw):
    return {
        "titles": draw(st.integers(1, 3)),
        "tabs": draw(st.booleans()),
        "sgr": draw(st.sampled_from(["", "\x1b[4m{}\x1b[0m", "[4m{}[0m"])),
        "lost_tab": draw(st.booleans()),
        "trailing": draw(st.sampled_from(["", "\t", "\t\t", "\t\t\t\t"])),
        "ends": draw(st.sampled_from(["\n", "\r\n"])),
        "glue": draw(st.booleans()),
        "nic_rows": draw(st.booleans()),
        "before": draw(st.sampled_from(["", "$ nvidia-smi topo -m\n", "Tue Mar 3 2026\n\n"])),
        "after": draw(st.sampled_from(["", "\n\nLegend:\n\n  X    = Self\n  NV#  = NVLinks\n"])),
    }


def cell(links, a, b):
    return " X " if a == b else links.get((a, b)) or links[b, a]


def render(machine, dialect):
    """Print a machine as the driver (or a paste of it) would."""
    gpus, nics, links, cpus, numas = machine
    titles = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"][: dialect["titles"]]
    header = "\t".join([*gpus, *nics, *titles])
    header = header if dialect["lost_tab"] else "\t" + header
    lines = [dialect["sgr"].format(header) if dialect["sgr"] else header]
    for name in [*gpus, *(nics if dialect["nic_rows"] else [])]:
        cells = [cell(links, name, other) for other in [*gpus, *nics]]
        row = "\t".join([name, *cells])
        if dialect["glue"]:  # the first two neighbours that ran together
            row = row.replace("NODE\tNODE", "NODENODE", 1)
        if name in gpus:
            tail = [cpus[name], numas[name], "\tN/A"][: dialect["titles"]]
            row = "\t".join([row, *tail])
        else:
            row += dialect["trailing"]
        lines.append(row)
    if not dialect["tabs"]:
        lines = [line.expandtabs(16) for line in lines]
    text = dialect["before"] + "\n".join(lines) + "\n" + dialect["after"]
    return text.replace("\n", dialect["ends"])


@given(machines(), dialects())
@settings(max_examples=150, deadline=None)
def test_a_printed_machine_is_read_back(machine, dialect):
    gpus, nics, links, cpus, numas = machine

    topology = parse_topo(render(machine, dialect))

    assert topology.n_gpus == len(gpus)
    assert list(topology.nics) == nics
    for (a, b), label in links.items():
        known = topology.device_link(a, b)
        if known is None:  # two network cards whose rows are not there
            assert not dialect["nic_rows"]
            assert a in nics
        else:
            assert str(known) == label
    for at, gpu in enumerate(gpus):
        single = numas[gpu].isdigit() and dialect["titles"] > 1
        if dialect["tabs"] or cpus[gpu] or dialect["titles"] == 3:
            assert topology.cpu_affinity[at] == (cpus[gpu] or None)
            assert topology.numa_affinity[at] == (numas[gpu] if single else None)


@given(machines(), dialects(), st.integers(0, 400))
@settings(max_examples=150, deadline=None)
def test_a_text_cut_anywhere_is_read_rightly_or_refused(machine, dialect, keep):
    gpus, _, links, _, _ = machine
    text = render(machine, dialect)[:keep]

    try:
        topology = parse_topo(text)
    except TopologyParseError:
        return

    for a, b in combinations(gpus[: topology.n_gpus], 2):
        assert str(topology.device_link(a, b)) == links[a, b]


@given(st.text(alphabet="GPU01 NVX\t\nSYSCAffinity-,/", max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_text_makes_it_fail_in_another_way(text):
    with suppress(TopologyParseError):
        parse_topo("\tGPU0\tGPU1\tCPU Affinity\n" + text)
