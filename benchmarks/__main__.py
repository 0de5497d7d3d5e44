"""``python -m benchmarks list`` and ``python -m benchmarks run NAME [--size S]``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from math import isfinite

from benchmarks.registry import Benchmark, Row, registry
from report.text import amount, plural


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 1 where a stated number is missed, else 0."""
    benchmarks = registry()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="the benchmarks, with their sizes")
    run = verbs.add_parser("run", help="measure; exit 1 where a stated number is missed")
    run.add_argument("name", choices=sorted(benchmarks))
    run.add_argument("--size", help="only this size")
    run.add_argument("--output", choices=["table", "json"], default="table")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "list":
        for benchmark in benchmarks.values():
            sys.stdout.write(f"{benchmark.name}: {benchmark.text}\n")
            sys.stdout.write(f"    sizes: {', '.join(benchmark.sizes)}\n")
        return 0
    benchmark = benchmarks[chosen.name]
    if chosen.size is not None and chosen.size not in benchmark.sizes:
        run.error(f"{benchmark.name} has the sizes {', '.join(benchmark.sizes)}")
    rows = _measure(benchmark, chosen.size, as_table=chosen.output == "table")
    short = [row for row in rows if row.verdict == "short"]
    if chosen.output == "json":
        sys.stdout.write(json.dumps(_report(benchmark, rows), indent=2) + "\n")
    else:
        judged = [row for row in rows if row.verdict in ("ok", "short")]
        reached = len(judged) - len(short)
        sys.stdout.write(f"{reached} of {plural(len(judged), 'stated number')} reached\n")
    return 1 if short else 0


def _measure(benchmark: Benchmark, size: str | None, *, as_table: bool) -> list[Row]:
    rows = []
    for row in benchmark.run(size):
        rows.append(row)
        if as_table:
            sys.stdout.write(_line(row) + "\n")
            sys.stdout.flush()
    return rows


def _line(row: Row) -> str:
    value = "-" if row.value is None else f"{amount(row.value, 4)} {row.unit}"
    limit = "" if row.limit is None else f"<= {amount(row.limit, 4)}"
    text = f"{row.verdict:8} {row.instance:24} {row.measure:36} {value:>14}  {limit:8} {row.note}"
    return text.rstrip()


def _report(benchmark: Benchmark, rows: Sequence[Row]) -> dict[str, object]:
    return {
        "schema": "unstrand/benchmarks/v1",
        "name": benchmark.name,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "rows": [
            {
                "instance": row.instance,
                "measure": row.measure,
                "value": row.value if row.value is not None and isfinite(row.value) else None,
                "unit": row.unit,
                "limit": row.limit,
                "verdict": row.verdict,
                "note": row.note,
            }
            for row in rows
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
