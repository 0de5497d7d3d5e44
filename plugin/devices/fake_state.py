"""The file that says what is wrong with fake GPUs, read or refused.

    {"driver": "absent", "lost": [3], "slow_s": 0.5, "unmonitored": [2], "hidden": [1],
     "monitor": "broken",
     "xids": [{"xid": 79, "gpu": 0}, {"xid": 43, "gpu": 1, "gi": 2, "ci": 0}],
     "mig": {"0": [{"profile": "3g.40gb", "start": 4}]},
     "processes": [{"gpu": 0, "gi": 1, "pid": 4711, "name": "python3"}], "refuse": ["4g.40gb"]}

``driver`` fails every listing, ``monitor`` every probe and wait for errors. Each entry of `xids` is
reported once, when it is new in the list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plugin.errors import PluginError

MAX_BYTES = 2**20


class StateError(PluginError):
    """The file is not of that form."""


def read_state(file: Path) -> Mapping[str, Any]:
    """Read the file.

    Raises
    ------
    OSError
        It is not there.
    StateError
        It is wrong; the message names the key.
    """
    text = file.read_bytes()
    if len(text) > MAX_BYTES:
        raise StateError(f"{file}: larger than {MAX_BYTES} bytes")
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateError(f"{file}: not JSON: {error or 'nested too deep'}") from error
    if not isinstance(state, dict):
        raise StateError(f"{file}: an object is wanted here")
    for key, value in state.items():
        known = _KEYS.get(key)
        if known is None:
            raise StateError(f"{file}: {key}: unknown key. Known here: {', '.join(_KEYS)}")
        wanted, is_right = known
        if not is_right(value):
            raise StateError(f"{file}: {key}: {wanted} is wanted here")
    return state


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 3600


def _are_gpus(value: object) -> bool:
    return isinstance(value, list) and all(_is_number(one) for one in value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(one) for one in value)


def _are_xids(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and _is_number(one.get("xid"))
        and all(one.get(key) is None or _is_number(one[key]) for key in ("gpu", "gi", "ci"))
        for one in value
    )


def _are_processes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and all(_is_number(one.get(key)) for key in ("gpu", "gi", "pid"))
        and _is_text(one.get("name", ""))
        for one in value
    )


def _is_mig(value: object) -> bool:
    return isinstance(value, dict) and all(
        index.isdecimal()
        and isinstance(instances, list)
        and all(
            isinstance(one, dict) and _is_text(one.get("profile")) and _is_number(one.get("start"))
            for one in instances
        )
        for index, instances in value.items()
    )


_KEYS = {
    "driver": ("a text", _is_text),
    "monitor": ("a text", _is_text),
    "slow_s": ("a number of seconds", _is_seconds),
    "lost": ("a list of GPU numbers", _are_gpus),
    "unmonitored": ("a list of GPU numbers", _are_gpus),
    "hidden": ("a list of GPU numbers", _are_gpus),
    "refuse": ("a list of MIG profiles", _are_texts),
    "xids": ("a list of {xid, gpu, gi, ci}", _are_xids),
    "processes": ("a list of {gpu, gi, pid, name}", _are_processes),
    "mig": ("GPU numbers with lists of {profile, start}", _is_mig),
}
