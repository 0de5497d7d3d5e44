"""Scalars as they stand in the file: the key that holds one decides what it means."""

from __future__ import annotations


class Plain(str):
    """A scalar written without quotes.

    YAML 1.1 guesses a type from the text alone, so that ``on`` is true, ``12:30`` is 750 and the
    queue ``6214e9`` a number. Here a plain scalar stays text until a model reads it: a name takes
    it as written, a count wants digits, a flag ``true`` or ``false``.
    """

    __slots__ = ()
