"""``advise``: the mechanism for each tier, what it isolates, and the configuration to apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from report.console import new_table
from report.json_report import number
from report.text import amount, percent
from report.yaml_report import to_yaml
from solver.advice import ISOLATION, Advice, Mechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from solver.advice import Option

ADVICE_SCHEMA = "unstrand/advise/v1"

MPS_ROOT = "/run/nvidia/mps"
"""Where NVIDIA's chart has the daemon's files; a config with MPS has to name the folder."""


def advice_report(advices: Sequence[Advice]) -> dict[str, Any]:
    """The answer of ``advise`` (schema ``unstrand/advise/v1``)."""
    return {
        "schema": ADVICE_SCHEMA,
        "tiers": [
            {
                "name": advice.tier.name,
                "model": advice.device.model,
                "mechanism": advice.chosen.mechanism.value,
                "reasons": list(advice.reasons),
                "isolation": _isolation(advice.chosen.mechanism),
                "gpus": advice.chosen.gpus_for(advice.tier),
                "options": [_option(advice, option) for option in advice.options],
                "configuration": configuration(advice),
            }
            for advice in advices
        ],
    }


def _isolation(mechanism: Mechanism) -> dict[str, str]:
    found = ISOLATION[mechanism]
    return {
        "memory": found.memory,
        "faults": found.faults,
        "bandwidth": found.bandwidth,
        "sms": found.sms,
    }


def _option(advice: Advice, option: Option) -> dict[str, Any]:
    return {
        "mechanism": option.mechanism.value,
        "profile": None if option.profile is None else option.profile.name,
        "per_gpu": option.per_gpu,
        "gpus": option.gpus_for(advice.tier),
        "utilization_ratio": number(option.utilization_ratio),
        "slowdown": number(option.slowdown),
        "isolation": _isolation(option.mechanism),
    }


def configuration(advice: Advice) -> dict[str, Any]:
    """What to apply: a config of NVIDIA's device plugin, or one of mig-parted; and the request."""
    chosen = advice.chosen
    if chosen.profile is not None:
        profile = chosen.profile.name
        resource = f"nvidia.com/mig-{profile.replace('+', '.')}"
        entry = {"devices": "all", "mig-enabled": True, "mig-devices": {profile: chosen.per_gpu}}
        return {
            "mig-parted": {"version": "v1", "mig-configs": {advice.tier.name: [entry]}},
            "device-plugin": {"version": "v1", "flags": {"migStrategy": "mixed"}},
            "request": {resource: 1},
        }
    if chosen.mechanism is Mechanism.WHOLE:
        return {"request": {"nvidia.com/gpu": max(1, advice.tier.gpus)}}
    resources = [{"name": "nvidia.com/gpu", "replicas": chosen.per_gpu}]
    config: dict[str, Any] = {"version": "v1"}
    if chosen.mechanism is Mechanism.MPS:
        # Each of the replicas gets its part of the memory as a limit, and of the threads.
        config["flags"] = {"mpsRoot": MPS_ROOT}
        config["sharing"] = {"mps": {"resources": resources}}
    else:
        config["sharing"] = {
            "timeSlicing": {"failRequestsGreaterThanOne": True, "resources": resources}
        }
    return {"device-plugin": config, "request": {"nvidia.com/gpu": 1}}


def advice_view(advices: Sequence[Advice], *, with_configuration: bool) -> RenderableType:
    """The answer of ``advise`` for people."""
    table = new_table()
    table.add_column("tier")
    table.add_column("gets")
    for title in ("per GPU", "GPUs", "busy", "slower"):
        table.add_column(title, justify="right")
    for title in ("memory", "faults", "bandwidth", "SMs"):
        table.add_column(title)
    for advice in advices:
        others = [option for option in advice.options if option is not advice.chosen]
        for option in (advice.chosen, *others):
            mark = option is advice.chosen
            found = ISOLATION[option.mechanism]
            table.add_row(
                advice.tier.name if mark else "",
                _label(advice, option) if mark else f"  or {_label(advice, option)}",
                str(option.per_gpu),
                str(option.gpus_for(advice.tier)),
                percent(option.utilization_ratio),
                f"x {amount(option.slowdown, 1)}",
                found.memory,
                found.faults,
                found.bandwidth,
                found.sms,
                style=None if mark else "dim",
            )
    sections: list[RenderableType] = [table, Text("\nWhy", style="bold")]
    for advice in advices:
        sections.append(Text(f"{advice.tier.name}: {'; '.join(advice.reasons)}"))
        if with_configuration:
            sections.append(Text(to_yaml(configuration(advice)), style="dim"))
    return Group(*sections)


def _label(advice: Advice, option: Option) -> str:
    name = option.mechanism.value if option.profile is None else f"mig {option.profile.name}"
    return f"{name} on {advice.device.model}"
