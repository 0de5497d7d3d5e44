"""``schema``: the JSON Schema of the spec."""

from __future__ import annotations

import typer


def schema() -> None:
    """Print the JSON Schema of the spec, for editors."""
    from specs.schema import schema_text

    typer.echo(schema_text(), nl=False)
