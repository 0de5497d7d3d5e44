import json

import jsonschema
import pytest
import yaml

from specs.schema import json_schema, schema_text
from tests.specs.reading import SPECS

CHECKED_IN = SPECS / "cluster.schema.json"
SHIPPED = sorted(SPECS.glob("*.yaml"))
NODE = {"cluster": {"nodes": [{"name": "n", "gpus": 8}]}}


def faults(spec: object) -> list[str]:
    validator = jsonschema.Draft202012Validator(json_schema())
    return [fault.json_path for fault in validator.iter_errors(spec)]


def test_the_schema_is_one_of_draft_2020_12():
    assert json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_schema_that_is_checked_in_is_the_generated_one():
    assert CHECKED_IN.read_text() == schema_text(), (
        "write it again: python cli.py schema > specs/cluster.schema.json"
    )


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_schema_accepts_every_spec_that_is_shipped(path):
    assert faults(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_spec_that_is_shipped_points_editors_to_the_schema(path):
    first = path.read_text().splitlines()[0]

    assert first == f"# yaml-language-server: $schema={CHECKED_IN.name}"


def objects(node: object, path: str = "$"):
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict):
            yield path, node
        for key, value in node.items():
            yield from objects(value, f"{path}.{key}")


def test_every_key_has_a_description_and_no_object_takes_unknown_keys():
    found = list(objects(json_schema()))

    assert len(found) > 20
    for path, node in found:
        assert node["additionalProperties"] is False, path
        for key, value in node["properties"].items():
            assert value.get("description"), f"{path}.{key}"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"jobz": []}, "$"),
        ({"cluster": {"nodes": [{"gpus": 8}]}}, "$.cluster.nodes[0]"),
        ({"cluster": {"nodes": [{"name": "n", "gpuz": 8}]}}, "$.cluster.nodes[0]"),
        ({"cluster": {"nodes": [{"name": "n", "gpus": -1}]}}, "$.cluster.nodes[0].gpus"),
        ({"cluster": {"nodes": [{"name": "n", "memory": "64GB"}]}}, "$.cluster.nodes[0].memory"),
        ({"cluster": {"nodes": [{"name": "n", "ready": "maybe"}]}}, "$.cluster.nodes[0].ready"),
        ({"jobs": [{"name": "j", "gpus": "1 Gi"}]}, "$.jobs[0].gpus"),
        ({"jobs": [{"name": "j", "link": "requird"}]}, "$.jobs[0].link"),
        ({"jobs": [{"name": "j", "replicas": 0}]}, "$.jobs[0].replicas"),
        ({"jobs": [{"name": "j", "duration": "30"}]}, "$.jobs[0].duration"),
        ({"running": [{"job": "r", "replicas": [{"gpus": 1}]}]}, "$.running[0].replicas[0]"),
        ({"objectives": ["priorty"]}, "$.objectives"),
        ({"solve": {"workers": 0}}, "$.solve.workers"),
    ],
)
def test_the_schema_refuses_what_is_no_spec(change, path):
    found = faults({**NODE, **change})

    assert any(place.startswith(path) for place in found), found


def test_the_text_is_json():
    assert json.loads(schema_text()) == json_schema()
