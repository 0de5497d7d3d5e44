"""Plain data to the model; what pydantic refuses becomes faults with places and hints.

A fault must not hide another one. What is at fault is left out and the rest validated again, so
that the checks between objects can still be made on everything that is sound.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from specs.errors import SpecFault, shown
from specs.hints import did_you_mean
from specs.loaded import LoadedSpec
from specs.models.scenario import ClusterSpec

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from pydantic_core import ErrorDetails

    from specs.document import Document
    from specs.places import Path

Kept = dict["Path", tuple[int, ...]]

RULES = {
    "model_type": "a mapping of keys is wanted here",
    "dict_type": "a mapping of keys is wanted here",
    "tuple_type": "a list is wanted here",
}
"""Kinds of pydantic's errors in our words; our own validators bring theirs."""


def read_model(document: Document, folder: FilePath) -> tuple[LoadedSpec | None, list[SpecFault]]:
    """Validate the data of a document.

    Returns
    -------
    tuple
        The spec, or as much of it as is sound (None if its roots are not), and the faults.
    """
    data, kept = document.data, dict[Any, tuple[int, ...]]()
    faults: list[SpecFault] = []
    damaged: set[Path] = set()
    while True:
        try:
            spec = ClusterSpec.model_validate(data)
        except ValidationError as error:
            details = error.errors(include_url=False)
        else:
            loaded = LoadedSpec(
                spec=spec, document=document, folder=folder, damaged=frozenset(damaged), kept=kept
            )
            return loaded, faults
        first_pass = not damaged
        bad: set[Path] = set()
        for detail in details:
            path = _data_path(detail, document, kept)
            if first_pass:
                faults.append(_fault(detail, path, document))
            damaged.update(path[:length] for length in range(1, len(path) + 1))
            bad.add(path[:-1] if detail["type"] == "missing" else path)
        if () in bad:
            return None, faults
        data = _without(document.data, (), bad | _gone(document.data, (), data, kept), kept)


def _gone(original: Any, path: Path, left: Any, kept: Kept) -> set[Path]:  # noqa: ANN401
    """Paths of the file that an earlier pass left out."""
    if isinstance(original, dict) and isinstance(left, dict):
        gone = {(*path, key) for key in original if key not in left}
        pairs = [(key, original[key], left[key]) for key in left]
    elif isinstance(original, list) and isinstance(left, list):
        indices = kept.get(path, range(len(original)))
        gone = {(*path, i) for i in range(len(original)) if i not in set(indices)}
        pairs = [(i, original[i], value) for i, value in zip(indices, left, strict=True)]
    else:
        return set()
    for step, before, after in pairs:
        if before is not after:
            gone |= _gone(before, (*path, step), after, kept)
    return gone


def _without(value: Any, path: Path, bad: set[Path], kept: Kept) -> Any:  # noqa: ANN401
    """A copy without the paths in `bad`; what is left of lists is noted in `kept`."""
    touched = {p[len(path)] for p in bad if len(p) > len(path) and p[: len(path)] == path}
    if not touched:
        return value
    inner = {p for p in bad if p[: len(path)] == path}
    if isinstance(value, dict):
        return {
            key: _without(item, (*path, key), inner, kept) if key in touched else item
            for key, item in value.items()
            if (*path, key) not in inner
        }
    indices = tuple(i for i in range(len(value)) if (*path, i) not in inner)
    if len(indices) < len(value):
        kept[path] = indices
    return [
        _without(value[i], (*path, i), inner, kept) if i in touched else value[i] for i in indices
    ]


def _data_path(detail: ErrorDetails, document: Document, kept: Kept) -> Path:
    """Path in the file; pydantic's own steps into unions and keys are no part of it."""
    path: Path = ()
    value: Any = document.data
    for step in detail["loc"]:
        if isinstance(value, list) and isinstance(step, int):
            step = kept[path][step] if path in kept else step
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        elif detail["type"] == "missing" and step == detail["loc"][-1]:
            value = None
        else:
            continue
        path = (*path, step)
    return path


def _fault(detail: ErrorDetails, path: Path, document: Document) -> SpecFault:
    kind, context = detail["type"], detail.get("ctx", {})
    words, value = document.words(path), shown(document.value(path))
    at_key = kind == "extra_forbidden" or detail["loc"][-1:] == ("[key]",)
    hint = context.get("hint", "")
    if kind == "missing":
        words, value = document.words(path[:-1]), ""
        rule = f'the key "{path[-1]}" is missing'
        hint = _missing_hint(path, document)
    elif kind == "extra_forbidden":
        rule, value = "unknown key", shown(path[-1])
        words = document.words(path[:-1])
        hint = _key_hint(path)
    elif kind == "choice":
        rule = context["rule"]
        written = document.value(path)
        if isinstance(written, str):
            hint = did_you_mean(written, context["known"])
    else:
        rule = context.get("rule") or RULES.get(kind) or detail["msg"]
        if document.value(path) is None:
            rule, value, hint = "this entry is empty", "", "Fill it in or remove it"
    line, column = document.place(path[:-1] if kind == "missing" else path, key=at_key)
    return SpecFault(
        file=document.file,
        line=line,
        column=column,
        path=words,
        value=value,
        rule=rule,
        hint=hint,
    )


def _missing_hint(path: Path, document: Document) -> str:
    near = document.value(path[:-1])
    if path == ("cluster",) and isinstance(near, dict) and "apiVersion" in near:
        return "These are objects of Kubernetes: make a spec of them with import kubernetes"
    if path == ("cluster",):
        return "A spec begins with cluster:"
    if path[-1] == "job" and isinstance(near, dict) and "name" in near:
        return "Running work is named by job: instead of name:"
    return ""


def _key_hint(path: Path) -> str:
    word = str(path[-1])
    model = _model_at(path[:-1])
    known = list(model.model_fields) if model else []
    if model and word == "name" and "job" in known:
        return 'Did you mean "job"?'
    return did_you_mean(word, known, "keys")


def _model_at(path: Path) -> type[BaseModel] | None:
    """The model that an object at `path` of a spec is read by."""
    model: type[BaseModel] = ClusterSpec
    for step in path:
        if isinstance(step, str):
            info = model.model_fields.get(step)
            inner = _model_in(info.annotation) if info else None
            if inner is None:
                return None
            model = inner
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401
    """The model inside an annotation such as ``tuple[JobSpec, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, Annotated, tuple):
        for part in get_args(annotation):
            if (inner := _model_in(part)) is not None:
                return inner
    return None
