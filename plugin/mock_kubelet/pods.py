"""Pods as the device manager sees them: containers in order, with what they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Container:
    """A container of a pod, with the extended resources it asks for."""

    name: str
    limits: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class Pod:
    """A pod: init containers and containers in order."""

    uid: str
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
