"""What a kubelet remembers over a restart."""

from __future__ import annotations

import json
from pathlib import Path

from plugin.mock_kubelet.books import Books, Inventory

CHECKPOINT = "kubelet_internal_checkpoint"


def write_checkpoint(folder: Path, books: Books) -> None:
    """Write down who holds what, and which resources there are."""
    entries = [
        {"PodUID": pod, "ContainerName": container, "ResourceName": name, "DeviceIDs": [*ids]}
        for (pod, container, name), ids in books.held.items()
    ]
    data = {
        "Data": {
            "PodDeviceEntries": entries,
            "RegisteredDevices": {
                name: sorted(inventory.healthy) for name, inventory in books.inventories.items()
            },
        }
    }
    (folder / CHECKPOINT).write_text(json.dumps(data), encoding="utf-8")


def read_checkpoint(folder: Path, books: Books, now_s: float) -> None:
    """Fill the books of a new run: resources come back without devices. No file, nothing held."""
    path = folder / CHECKPOINT
    if not path.exists():
        books.held = {}
        return
    data = json.loads(path.read_text(encoding="utf-8"))["Data"]
    books.held = {
        (e["PodUID"], e["ContainerName"], e["ResourceName"]): frozenset(e["DeviceIDs"])
        for e in data["PodDeviceEntries"]
    }
    for name in data["RegisteredDevices"]:
        books.inventories.setdefault(name, Inventory(left_at=now_s))
