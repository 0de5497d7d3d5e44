"""JSON Schema of the spec: what editors check and complete while a spec is written."""

from __future__ import annotations

import json
from typing import Any

from specs.models.scenario import ClusterSpec

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Schema of the spec (draft 2020-12), with a description of every key.

    It knows types, keys and spellings. What only the loader can tell (references between
    objects, files, GPUs held twice) is left to ``validate``.
    """
    schema: dict[str, Any] = _plain(ClusterSpec.model_json_schema())
    return {"$schema": DRAFT, "title": "unstrand cluster spec", **schema}


def schema_text() -> str:
    """Text of the schema as it is printed and checked in."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _plain(node: Any, *, names: bool = False) -> Any:  # noqa: ANN401 - JSON
    """Drop what pydantic adds and readers do not need: its titles, and defaults that are empty.

    With `names` the keys of the node are the user's (``properties``), not the schema's.
    """
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    noise = {"title"} | ({"default"} if node.get("default") in (None, {}, []) else set())
    return {
        key: _plain(value, names=key in ("properties", "$defs"))
        for key, value in node.items()
        if names or key not in noise
    }
