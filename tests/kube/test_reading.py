"""Files of objects: JSON in pieces, YAML, Lists, several documents; damage with its line."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kube.json_stream import CHUNK_BYTES
from kube.reading import read_objects
from kube.snapshot import Snapshot
from specs.errors import SpecErrors
from tests.kube.objects import Read, listed, node, pod
from tests.kube.objects import snapshot as taken


def objects(text: str | bytes) -> list:
    raw = text.encode() if isinstance(text, str) else text
    return [found.data for found in read_objects(io.BytesIO(raw), "f")]


def lines(text: str) -> list[int]:
    return [found.place.line for found in read_objects(io.BytesIO(text.encode()), "f")]


def taken_from(raw: bytes) -> Snapshot:
    found = Snapshot()
    found.add_all(read_objects(io.BytesIO(raw), "f"))
    found.check()
    return found


A, B = {"kind": "A", "x": 1}, {"kind": "B", "y": [None, True, "é"]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kind": "List", "items": [A, B]}),
        json.dumps({"items": [A, B], "kind": "List"}, indent=4),
        json.dumps([A, B]),
        json.dumps(A) + "\n" + json.dumps(B),
        "\ufeff" + json.dumps(A) + json.dumps({"items": [B]}),
    ],
)
def test_json_in_every_shape_gives_the_same_objects(text):
    assert objects(text) == [A, B]


@pytest.mark.parametrize("text", ['{"kind": "PodList", "items": null}', "kind: PodList\nitems:"])
def test_a_list_of_nothing_may_be_null(text):
    assert objects(text) == []


def test_an_answer_that_is_no_object_is_shown():
    answer = {"kind": "Status", "apiVersion": "v1", "message": "Unauthorized", "code": 401}

    with pytest.raises(SpecErrors, match=r'"Unauthorized": the API gave this answer'):
        taken_from(json.dumps(answer).encode())


def test_items_of_typed_lists_have_the_kind_of_the_list_wherever_it_stands():
    before = '{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}'
    behind = '{"items": [{"metadata": {"name": "a"}}], "kind": "PodList", "apiVersion": "v1"}'

    assert objects(before) == objects(behind)
    assert objects(before)[0]["kind"] == "Pod"


def test_yaml_documents_and_lists_are_read_with_their_lines():
    text = (
        "---\nkind: A\nx: 1\n---\n# nothing\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n...\n"
    )

    assert [found["kind"] for found in objects(text)] == ["A", "B", "C"]
    assert lines(text) == [2, 9, 10]


def test_json_and_yaml_of_a_cluster_give_the_same_spec():
    cluster = [node("n1", 8, labels={"a": "1"}), pod("p", 2, nodeSelector={"a": "1"}, priority=3)]
    text = yaml.safe_dump_all(cluster)

    other = taken_from(text.encode())

    assert Read(other).imported.text == Read(taken(cluster)).imported.text


def test_lines_of_items_are_told():
    text = json.dumps({"items": [A, B]}, indent=1)

    assert [text.splitlines()[line - 1].strip() for line in lines(text)] == ["{", "{"]
    assert lines(text) == [3, 7]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"items": [{"kind": "A"}, {"kin', "f:1:1: .*Is the file cut off?"),
        ('{"items": [{"kind": "A"}', "ends here"),
        ('{\n"items": [\n{"kind": NaN}]}', "f:3:1: .*NaN is no JSON"),
        ('{"a" 1}', "no JSON"),
        ('{"items": [1 2]}', "no JSON"),
        ("[" * 100_000, "nested deeper"),
        ('{"a": ' + "9" * 5000 + "}", "more digits"),
        ("a: [", "f:2:1: not YAML"),
        ("a: &x [*x]", "anchor"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b"\x1f\x8b\x08\x00", "gzip -dc"),
        ('{"kind": "List"}'.encode("utf-16"), "UTF-16"),
        ("x: !!python/object:os.system {}", "tag"),
        ("kind: A\n---\nkind: A\nkind: B\n", "f:4"),
        ("just words", "text, but no object"),
    ],
)
def test_damage_is_told_with_its_place(text, said):
    raw = text.encode() if isinstance(text, str) else text

    with pytest.raises(SpecErrors, match=said):
        _ = taken_from(raw)


def test_values_across_pieces_are_read_whole():
    big = [
        {"kind": "A", "text": "x" * 1000, "n": 10**17 + i} for i in range(3 * CHUNK_BYTES // 1000)
    ]

    assert objects(json.dumps({"items": big})) == big


def test_a_large_list_is_never_whole_in_memory():
    raw = listed([pod(f"p{i}", 1) for i in range(10_000)])
    assert len(raw) > 8 * CHUNK_BYTES

    tracemalloc.start()
    count = sum(1 for _ in read_objects(io.BytesIO(raw), "f"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 10_000
    assert peak < len(raw) / 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), max_size=4), st.integers(1, 40)
)
def test_whatever_the_pieces_the_objects_are_the_same(items, size):
    class Slow(io.BytesIO):
        def read(self, _=-1):
            return super().read(size)

    items = [{"kind": "A", **item} for item in items]
    raw = json.dumps({"z": 1, "items": items}, ensure_ascii=False).encode("utf-8", "replace")

    found = [entry.data for entry in read_objects(Slow(raw), "f")]

    assert found == json.loads(raw)["items"]


def test_an_empty_document_is_told_how_objects_begin():
    with pytest.raises(SpecErrors, match="An object begins with apiVersion"):
        list(read_objects(io.BytesIO(b"null\n"), "f"))


@pytest.mark.parametrize(
    "text", ["NAME   STATUS\ngpu-a  Ready\n", "node/gpu-a\nnode/gpu-b\n", "No resources found\n"]
)
def test_what_kubectl_prints_for_people_is_told_how_objects_begin(text):
    with pytest.raises(SpecErrors, match=r"text, but no object of Kubernetes\. .* or -o json"):
        objects(text)
