"""Steps as files: one for each request, a list of all, and a script that runs them with kubectl."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube.step import Step, Steps

STEPS_SCHEMA = "unstrand/steps/v1"
WAIT = "10m"
_UNFIT = re.compile(r"[^A-Za-z0-9._-]")
"""What no file name has, wherever it is written: readers refuse names that lead out of a folder."""
_SUBRESOURCES = {"evict": "eviction", "bind": "binding"}


def step_files(found: Steps) -> dict[str, str]:
    """File name to content: the requests, ``steps.json`` and ``apply.sh``."""
    files: dict[str, str] = {}
    entries: list[dict[str, object]] = []
    commands: list[str] = []
    undo: list[str] = []
    width = max(3, len(str(len(found.steps))))
    for number, step in enumerate(found.steps, start=1):
        file = ""
        if step.body is not None:
            parts = [f"{number:0{width}}", step.action, step.namespace, step.name]
            file = _UNFIT.sub("_", "-".join(part for part in parts if part))[:200] + ".json"
            files[file] = json.dumps(step.body, indent=2) + "\n"
        entry: dict[str, object] = {"action": step.action, "kind": step.kind}
        entry |= {"namespace": step.namespace} if step.namespace else {}
        entry |= {"name": step.name} | ({"file": file} if file else {})
        entries.append(entry | {"command": command(step, file)})
        commands += [f"# {step.text}", shlex.join(command(step, file))]
        if step.action == "uncordon":
            undo.append(shlex.join(command(step, file)))
    document = {"schema": STEPS_SCHEMA, "steps": entries, "remarks": found.remarks}
    files["steps.json"] = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    files["apply.sh"] = _script(commands, undo, found.remarks)
    return files


def command(step: Step, file: str) -> list[str]:
    """The kubectl command of a step."""
    inside = ["--namespace", step.namespace] if step.namespace else []
    if step.action == "wait":
        # By its node too: one that is made anew with the same name, as of a StatefulSet, waits.
        which = f"--field-selector=metadata.name={step.name},spec.nodeName={step.node}"
        return ["kubectl", "wait", *inside, "--for=delete", "pod", which, f"--timeout={WAIT}"]
    if step.action in _SUBRESOURCES:
        path = f"/api/v1/namespaces/{step.namespace}/pods/{step.name}"
        return ["kubectl", "create", "--raw", f"{path}/{_SUBRESOURCES[step.action]}", "-f", file]
    target = [step.kind.lower(), step.name]
    return ["kubectl", "patch", *inside, *target, "--type=merge", "--patch-file", file]


def _script(commands: Sequence[str], undo: Sequence[str], remarks: Sequence[str]) -> str:
    head = ["#!/bin/sh", "# Read it first. It ends at the first request that is refused."]
    if undo:
        head.append("# If it ends early, the cordons that it made are taken back.")
    notes = [f"# Note: {' '.join(remark.split())}" for remark in remarks]
    body = ["set -eu", 'cd "$(dirname "$0")"', *(_reopened(undo) if undo else ()), *commands]
    return "\n".join([*head, *notes, *body]) + "\n"


def _reopened(undo: Sequence[str]) -> list[str]:
    """Shell lines: at an early end nodes are opened again, whatever else is refused then."""
    return [
        "reopen() {",
        "    code=$?",
        "    trap - EXIT",
        '    [ "$code" -eq 0 ] && exit 0',
        "    echo 'It ended early: cordons are taken back. Import again before you go on.' >&2",
        *(f"    {line} || echo 'still cordoned: see above' >&2" for line in undo),
        '    exit "$code"',
        "}",
        "trap reopen EXIT",
        "trap 'exit 129' HUP",
        "trap 'exit 130' INT",
        "trap 'exit 143' TERM",
    ]
