"""``solve SPEC``: the plan, what each tier reached, what waits and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from commands.options import (
    BudgetOption,
    DefragOption,
    ForOption,
    MaxSizeOption,
    ModelOption,
    OutputFormat,
    OutputOption,
    PricesOption,
    SeedOption,
    SpecArgument,
    TimeLimitOption,
    WorkersOption,
)


def solve(
    spec: SpecArgument,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", metavar="NAME", help="cp-sat, a greedy baseline, or ORDER+PLACEMENT."
        ),
    ] = "cp-sat",
    output: OutputOption = OutputFormat.TABLE,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="PLAN", help="Also write the plan, with its spec, as JSON."),
    ] = None,
    time_limit: TimeLimitOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = None,
    max_size: MaxSizeOption = None,
    model: ModelOption = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="PLAN", help="Begin with a saved plan; what still stands is kept."
        ),
    ] = None,
    prices: PricesOption = None,
    defrag: DefragOption = False,
    target: ForOption = None,
    budget: BudgetOption = None,
) -> None:
    """Place the pending jobs of a spec: a checked plan, with the proved bound of every tier.

    With --defrag running work is moved, in an order in which every step can be carried out. The
    exit code is 4 where a job marked must (or that of --for) is proved unable to run. Ctrl-C ends
    the search; the best plan so far is then the answer.
    """
    from commands.defrag import check_options, defragmented
    from commands.errors import MustJobError
    from commands.inputs import read_question
    from commands.output import check_target, emit, write_file
    from commands.policies import CP_SAT, answer, check_policies, read_prices
    from report.json_report import plan_report, solve_report, to_json
    from report.plan_view import solve_view
    from solver.carry_over import carried_over
    from solver.result import SolveStatus
    from specs.plans import load_plan
    from specs.saved import named

    check_target(save, "--save")
    check_policies([policy], "--policy")
    if model is not None and policy != CP_SAT:
        text = f"says how {CP_SAT} searches; {policy} does not search"
        raise typer.BadParameter(text, param_hint="--model")
    if start is not None and policy != CP_SAT:
        text = f"{CP_SAT} can begin with a plan; {policy} always begins anew"
        raise typer.BadParameter(text, param_hint="--from")
    check_options(defrag, target, budget, policy=policy, model=model, start=start)
    book = read_prices(prices, [policy])
    question = read_question(
        spec, max_size=max_size, time_limit=time_limit, workers=workers, seed=seed, model=model
    )
    if defrag:
        defragmented(question, target, budget, output, save)
        return
    begin = None
    if start is not None:
        former = load_plan(start)
        begin = carried_over(question.problem, former)
        kept, planned = len(begin.by_job), len(former.by_job)
        note = f"{kept} of {planned} jobs of {named(start.name)} stand as they were planned"
        question = replace(question, notes=(*question.notes, note))
    result = answer(question, policy, begin, book)
    if save is not None:
        write_file(save, to_json(plan_report(result, question.text)))
    emit(output, solve_report(result), solve_view(question.problem, result))
    if result.status is SolveStatus.INFEASIBLE:
        raise MustJobError(result.must_fail)
