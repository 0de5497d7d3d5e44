"""Why a job waits: for people as tables, for programs as a plain dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from report.console import new_table
from report.json_report import number, placement_report
from report.text import amount, duration, node_names, places, plural

if TYPE_CHECKING:
    from rich.table import Table

    from solver.explain.explanation import Explanation, NodeGroup

EXPLAIN_SCHEMA = "unstrand/explain/v1"

VERDICTS = {
    "starts-now": ("it starts now", "bold green"),
    "waits": ("it waits", "bold yellow"),
    "impossible": ("impossible: it could not run on the empty cluster either", "bold red"),
}


def explain_report(explanation: Explanation) -> dict[str, Any]:
    """The answer of ``explain`` (schema ``unstrand/explain/v1``)."""
    waiting = explanation.pending
    return {
        "schema": EXPLAIN_SCHEMA,
        "job": explanation.job,
        "verdict": explanation.verdict,
        "reason": None if waiting is None else waiting.reason,
        "text": None if waiting is None else waiting.text,
        "core": [{"rule": rule.rule, "detail": rule.detail} for rule in explanation.core],
        "core_proved": explanation.core_proved,
        "nodes": [
            {
                "reason": group.reason,
                "count": group.count,
                "names": list(group.names),
                "facts": dict(group.facts),
            }
            for group in explanation.nodes
        ],
        "fixes": [
            {
                "kind": fix.kind,
                "params": {
                    key: number(value) if isinstance(value, float) else value
                    for key, value in fix.params.items()
                },
                "text": fix.text,
                "cost_gpu_s": fix.cost_gpu_s,
                "verified": fix.verified,
                "placements": [placement_report(place) for place in fix.placements],
            }
            for fix in explanation.fixes
        ],
        "placements": [placement_report(place) for place in explanation.placements],
        "notes": list(explanation.notes),
    }


def explain_view(explanation: Explanation) -> RenderableType:
    """Verdict, rules, nodes and fixes."""
    words, style = VERDICTS[explanation.verdict]
    head = Text.assemble((explanation.job, "bold"), ": ", (words, style))
    if explanation.pending is not None:
        head.append(f"\n{explanation.pending.reason}: {explanation.pending.text}")
    if explanation.placements:
        head.append(f"\n{places(explanation.placements)}")
    sections: list[RenderableType] = [head]
    if explanation.core and explanation.verdict != "starts-now":
        sections += [_heading("These cannot hold together"), _core(explanation)]
    if explanation.nodes:
        sections += [_heading("Node by node"), _nodes(explanation)]
    if explanation.verdict != "starts-now":
        sections.append(_heading("What would start it, each solved with it applied"))
        sections.append(_fixes(explanation) if explanation.fixes else Text("nothing was found"))
    sections += [Text(f"note: {note}", style="dim") for note in explanation.notes]
    return Group(*sections)


def _core(explanation: Explanation) -> Table:
    table = new_table()
    table.add_column("rule", no_wrap=True)
    table.add_column("here", overflow="fold")
    for rule in explanation.core:
        table.add_row(rule.rule, escape(rule.detail))
    return table


def _nodes(explanation: Explanation) -> Table:
    table = new_table()
    table.add_column("nodes", justify="right")
    table.add_column("reason", no_wrap=True)
    table.add_column("why", overflow="fold")
    table.add_column("held by", overflow="fold")
    table.add_column("which", overflow="fold")
    for group in explanation.nodes:
        more = " …" if group.count > len(group.names) else ""
        table.add_row(
            f"{group.count:,}",
            group.reason,
            escape(group.text),
            escape(_holders(group)),
            escape(node_names(group.names) + more),
        )
    return table


def _holders(group: NodeGroup) -> str:
    names = group.facts.get("held_by")
    if not names:
        return "-"
    more = group.facts["holders"] - len(names)
    text = ", ".join(names) + (f" and {more} more" if more else "")
    ends = group.facts.get("first_ends_in_s")
    return text if ends is None else f"{text}; the first ends in {duration(ends)}"


def _fixes(explanation: Explanation) -> Table:
    table = new_table()
    table.add_column("price", justify="right")
    table.add_column("fix", no_wrap=True)
    table.add_column("what", overflow="fold")
    table.add_column("then it starts on", overflow="fold")
    for fix in explanation.fixes:
        price = f"{amount(fix.cost_gpu_s)} GPU-s" if fix.cost_gpu_s else "0"
        nodes = {place.node for place in fix.placements}
        where = node_names(nodes) if len(nodes) <= 6 else plural(len(nodes), "node")
        table.add_row(price, fix.kind, escape(fix.text), escape(where))
    return table


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")
