"""Saved prices back in: the file of ``prices --save``, checked field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from solver.cluster import GPU_MILLI, Toleration
from solver.prices.book_file import SCHEMA
from solver.prices.saved import SavedPrices, SavedShape
from solver.workload import Shape
from specs.saved import read_model, refused

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1 << 28
HINT = "Write one with prices --save"
MOST_MILLI = 10.0**9
"""More than any shape is worth."""

Amount = Annotated[int, Field(ge=0, le=1 << 62)]
Price = Annotated[float, Field(ge=0, le=MOST_MILLI, allow_inf_nan=False)]


class _TolerationEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    key: str
    operator: Literal["Equal", "Exists"]
    value: str
    effect: str | None


class _ShapeEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    gpus: Amount
    share_milli: Annotated[int, Field(ge=0, le=GPU_MILLI)]
    share_memory_mib: Amount
    compute_milli: Amount = 0
    share_group: str = ""
    cpu_milli: Amount
    gpu_models: list[str]
    node_selector: dict[str, str]
    tolerations: list[_TolerationEntry] = Field(default_factory=list)
    demand: Price
    price_milli: list[Price]


class _PriceFile(BaseModel):
    model_config = ConfigDict(strict=True)

    schema_: Annotated[str, Field(alias="schema")]
    critical_cpu_factor: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
    cpu_factors: Annotated[
        list[Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]], Field(min_length=1)
    ]
    shapes: list[_ShapeEntry]


def load_prices(path: Path) -> SavedPrices:
    """The prices of a file; other keys are not looked at.

    Raises
    ------
    SpecErrors
        The file has no prices; the first things that are wrong with it.
    OSError
        It cannot be read.
    """
    file = read_model(path, _PriceFile, "prices", MAX_BYTES, HINT)
    if file.schema_ != SCHEMA:
        raise refused(path, f'prices have the schema "{SCHEMA}"', HINT)
    for number, entry in enumerate(file.shapes):
        if len(entry.price_milli) != len(file.cpu_factors):
            rule = (
                f"{len(entry.price_milli)} prices for {len(file.cpu_factors)} futures"
                " (cpu_factors): one each"
            )
            raise refused(path, rule, HINT, f"shapes.{number}.price_milli")
        if entry.share_milli and entry.gpus:
            rule = "a shape asks for whole GPUs (gpus) or for a part of one (share_milli)"
            raise refused(path, rule, HINT, f"shapes.{number}")
    return SavedPrices(
        shapes=tuple(map(_shape, file.shapes)),
        critical=file.critical_cpu_factor,
        cpu_factors=tuple(file.cpu_factors),
    )


def _shape(entry: _ShapeEntry) -> SavedShape:
    shape = Shape(
        gpus=entry.gpus,
        share_milli=entry.share_milli,
        share_memory_mib=entry.share_memory_mib,
        cpu_milli=entry.cpu_milli,
        gpu_models=tuple(entry.gpu_models),
        compute_milli=entry.compute_milli,
        share_group=entry.share_group,
        node_selector=tuple(sorted(entry.node_selector.items())),
        tolerations=tuple(
            Toleration(key=t.key, operator=t.operator, value=t.value, effect=t.effect)
            for t in entry.tolerations
        ),
    )
    return SavedShape(shape, entry.demand, tuple(entry.price_milli))
