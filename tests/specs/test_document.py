import gc

import pytest
import yaml

from specs.building import MAX_DEPTH
from specs.document import parse_document
from specs.errors import SpecErrors
from specs.scalars import Plain


def faults_of(text: str) -> list[str]:
    try:
        document = parse_document(text, "f.yaml")
    except SpecErrors as errors:
        return [str(fault) for fault in errors.faults]
    return [str(fault) for fault in document.faults]


def data_of(text: str) -> object:
    return parse_document(text, "f.yaml").data


@pytest.mark.parametrize(
    "text",
    [
        "on",
        "off",
        "yes",
        "no",
        "true",
        "12:30",
        "1e3",
        "6214e9",
        "0x1F",
        "010",
        "2024-01-01",
        "1_0",
    ],
)
def test_a_plain_scalar_stays_the_text_that_was_written(text):
    data = data_of(f"name: {text}\n")

    assert data == {"name": text}
    assert isinstance(data["name"], Plain)


def test_quotes_are_remembered():
    data = data_of("a: '5'\nb: \"5\"\nc: 5\nd: |\n  5\n")

    assert [isinstance(value, Plain) for value in data.values()] == [False, False, True, False]


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_nothing_is_none(text):
    assert data_of(f"a: {text}\nb: 1\n")["a"] is None


def test_core_tags_are_understood():
    assert data_of("a: !!str 5\nb: !!int 5\nc: !!map {d: !!seq [!!null x]}\n") == {
        "a": "5",
        "b": "5",
        "c": {"d": [None]},
    }


def test_an_alias_stands_for_what_its_anchor_has():
    data = data_of("a: &x {k: [1, 2]}\nb: *x\n")

    assert data["a"] is data["b"]


def test_every_value_knows_its_line_and_column():
    document = parse_document("a:\n  - {name: x, k: 1}\n  - name: y\n    k: [2, 3]\n", "f.yaml")

    assert document.place(("a", 0, "k")) == (2, 18)
    assert document.place(("a", 0, "k"), key=True) == (2, 15)
    assert document.place(("a", 1, "k", 1)) == (4, 12)
    assert document.place(("a", 1)) == (3, 5)
    assert document.words(("a", 1, "k", 1)) == "a[y].k[1]"


def test_columns_count_characters_and_not_bytes():
    document = parse_document("a: {é: 1, k: 2}\n", "f.yaml")

    assert document.place(("a", "k")) == (1, 14)


def test_a_path_that_leads_nowhere_is_at_the_innermost_container():
    document = parse_document("a:\n  b: 1\n", "f.yaml")

    assert document.place(("a", "c")) == (2, 3)
    assert document.value(("a", "c")) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "a: 1\nb: 2\na: 3\n",
            'f.yaml:3:1: a: "a": this key is here twice. It is in line 1 already; keep one of them',
            id="duplicate key",
        ),
        pytest.param(
            "jobs:\n  - {name: x, gpus: 1, gpus: 2}\n",
            'f.yaml:2:24: jobs[x].gpus: "gpus": this key is here twice. '
            "It is in line 2 already; keep one of them",
            id="duplicate key inside",
        ),
        pytest.param(
            "a: {? [1] : 2}\n", "f.yaml:1:7: a: a list of 0: a key is a word", id="list as key"
        ),
        pytest.param("a: {~: 2}\n", "f.yaml:1:5: a: nothing: a key is a word", id="null as key"),
        pytest.param(
            "a: &x {k: 1}\nb: {<<: *x}\n",
            "f.yaml:2:5: b: <<: a spec has no merge keys. "
            "Write the keys out, or use pools for nodes that are alike",
            id="merge key",
        ),
        pytest.param(
            "a: !secret x\n",
            'f.yaml:1:4: a: "!secret": a spec has no such tags. Remove it',
            id="tag",
        ),
        pytest.param(
            "a: !!python/object/apply:os.system [ls]\n",
            'f.yaml:1:4: a: "!!python/object/apply:os.system": a spec has no such tags. Remove it',
            id="tag that would run something",
        ),
        pytest.param("a: *x\n", 'f.yaml:1:4: a: "*x": no anchor has this name', id="no anchor"),
        pytest.param(
            "a: &x [*x]\n",
            'f.yaml:1:8: a[0]: "*x": an alias cannot stand inside its own anchor',
            id="alias in its own anchor",
        ),
        pytest.param(
            "a: 1\n---\nb: 2\n",
            "f.yaml:2:1: ---: a spec is one document. Split the file",
            id="two documents",
        ),
        pytest.param(
            "cluster:\n\tname: x\n",
            'f.yaml:2:1: "name: x": not YAML: found character that cannot start any token. '
            "YAML indents with blanks; replace the tab",
            id="tab",
        ),
        pytest.param("", "f.yaml:1:1: the file is empty. A spec begins with cluster:", id="empty"),
        pytest.param(
            "# nothing\n",
            "f.yaml:1:1: the file is empty. A spec begins with cluster:",
            id="comment",
        ),
        pytest.param(
            "a: \x00\x01\n",
            "f.yaml:1:4: character 0x00: a spec is text, this is not. Is it the right file?",
            id="binary",
        ),
    ],
)
def test_what_is_no_sound_yaml_is_said_with_its_place(text, message):
    assert faults_of(text) == [message]


def test_an_unclosed_bracket_is_said_with_its_line():
    (message,) = faults_of("cluster:\n  nodes:\n    - {name: a, gpus: 1\n    - {name: b}\n")

    assert message.startswith('f.yaml:4:7: "- {name: b}": not YAML: did not find expected')
    assert message.endswith("missing blank after a colon, or an unclosed bracket")


def test_several_faults_are_all_reported():
    assert len(faults_of("a: 1\na: 2\nb: !x 3\n? [c]\n: 4\n")) == 3


def test_after_a_duplicate_key_the_first_value_counts_and_reading_goes_on():
    document = parse_document("a: {x: 1}\na: {y: [2, {z: 3}]}\nb: 4\n", "f.yaml")

    assert document.data == {"a": {"x": "1"}, "b": "4"}


def test_aliases_that_explode_are_refused_at_once():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]

    (message,) = faults_of("\n".join(lines) + "\n")

    assert message.startswith("f.yaml:6:45: ")
    assert 'a5[7]: "*a4": aliases add up to more than 1000000 values. Write the values' in message


def test_many_plain_values_are_no_explosion():
    text = "a: [" + ", ".join("x" for _ in range(50_000)) + "]\n"

    assert len(data_of(text)["a"]) == 50_000


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 100_000])
def test_deep_nesting_is_refused_and_does_not_exhaust_the_stack(text):
    (message,) = faults_of(text)

    ours, libyamls = f"nested deeper than {MAX_DEPTH} levels", "exceeded maximum nesting depth"
    assert message.endswith((ours, libyamls))


def test_nesting_is_allowed_up_to_the_limit():
    assert faults_of("[" * MAX_DEPTH + "]" * MAX_DEPTH) == []
    assert len(faults_of("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))) == 1


def test_reading_leaves_the_garbage_collector_as_it_was():
    parse_document("a: 1\n", "f.yaml")
    assert gc.isenabled()

    with pytest.raises(SpecErrors):
        parse_document("a: [\n", "f.yaml")
    assert gc.isenabled()


def test_without_libyaml_the_answers_are_the_same(monkeypatch):
    text = "a: &x {k: [1, 'é', ~]}\nb: *x\nb: 3\n"
    fast = parse_document(text, "f.yaml")

    monkeypatch.setattr("specs.document._LOADER", yaml.SafeLoader)
    slow = parse_document(text, "f.yaml")

    assert (slow.data, slow.faults) == (fast.data, fast.faults)
    assert slow.place(("a", "k", 2)) == fast.place(("a", "k", 2))
