"""What can be wrong with hardware facts. Each error carries fields, not just text."""

from __future__ import annotations


class TopologyError(ValueError):
    """Root of the package's errors."""


class TopologyParseError(TopologyError):
    """A text is not the output of ``nvidia-smi topo -m``, or it is damaged beyond repair.

    Parameters
    ----------
    rule
        What should have been there.
    line
        1-based line in the text, or None where no line is to blame.
    value
        The offending text.
    hint
        The way out.
    source
        File or other origin of the text; the message then begins ``FILE:LINE:``.
    """

    def __init__(
        self,
        rule: str,
        *,
        line: int | None = None,
        value: str = "",
        hint: str = "",
        source: str = "",
    ) -> None:
        self.line, self.value, self.rule, self.hint = line, value, rule, hint
        self.source = source
        if source:
            where = f"{source}: " if line is None else f"{source}:{line}: "
        else:
            where = "" if line is None else f"line {line}: "
        shown = f"{value!r}: " if value else ""
        super().__init__(f"{where}{shown}{rule}" + (f" ({hint})" if hint else ""))

    def located(self, source: str) -> TopologyParseError:
        """Give the same error with the origin of the text in it."""
        return TopologyParseError(
            self.rule, line=self.line, value=self.value, hint=self.hint, source=source
        )


class TopologySourceError(TopologyError):
    """A capture cannot be read at all: no such file, too large, not a file."""

    def __init__(self, source: str, rule: str, *, hint: str = "") -> None:
        self.source, self.rule, self.hint = source, rule, hint
        super().__init__(f"{source}: {rule}" + (f" ({hint})" if hint else ""))


class UnknownPresetError(TopologyError):
    """No machine preset has that name; `near` are those that look like it, `known` all of them."""

    def __init__(self, name: str, known: tuple[str, ...], near: tuple[str, ...] = ()) -> None:
        self.name, self.known, self.near = name, known, near
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        super().__init__(f"no preset {name!r}; {meant}known: {', '.join(known)}")


class UnknownMigModelError(TopologyError):
    """A GPU model whose MIG layouts are not known; `near` are names that look like it."""

    def __init__(
        self, name: str, reason: str, known: tuple[str, ...] = (), near: tuple[str, ...] = ()
    ) -> None:
        self.name, self.reason, self.known, self.near = name, reason, known, near
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        listed = f"; known: {', '.join(known)}" if known else ""
        super().__init__(f"GPU model {name!r}: {reason}{meant}{listed}")


class UnknownMigProfileError(TopologyError):
    """A GPU model has no such MIG profile.

    `near` are profiles of the model that may be meant, `elsewhere` says what the name means on
    other models.
    """

    def __init__(
        self,
        name: str,
        model: str,
        known: tuple[str, ...],
        near: tuple[str, ...] = (),
        elsewhere: str = "",
    ) -> None:
        self.name, self.model, self.known = name, model, known
        self.near, self.elsewhere = near, elsewhere
        self.rule = f"{model} has no such MIG profile" + (f" ({elsewhere})" if elsewhere else "")
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"MIG profile {name!r}: {self.rule}{meant}; known: {', '.join(known)}")


class MigLayoutError(TopologyError):
    """Instances that cannot be on one GPU together; `instances` are the ones that clash."""

    def __init__(self, rule: str, instances: tuple[str, ...] = ()) -> None:
        self.rule, self.instances = rule, instances
        super().__init__(f"{' and '.join(instances)}: {rule}" if instances else rule)
