"""Layouts of one GPU: what fits beside what, what stays possible, and the best place to cut.

A *layout* is a set of instances, each with its start. Two instances clash iff their intervals of
memory slots overlap; compute slices never forbid what the slots allow. Beyond that a profile has
a most, the single pair of JPEG and OFA engines serves one ``+me`` instance, and an instance that
takes all media engines leaves room only for those that want none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from topology.errors import MigLayoutError
from topology.mig.tables import MigTable, Profile


@dataclass(frozen=True, slots=True, order=True)
class Instance:
    """A MIG instance: the profile and its first memory slot, written ``3g.40gb@4``."""

    start: int
    profile: str

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}"


Layout = tuple[Instance, ...]
"""Instances of one GPU, by ascending start."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many layouts a set of profiles has.

    Parameters
    ----------
    placements
        Non-empty layouts, told apart by their starts.
    multisets
        The same told apart only by how many instances of each profile they have.
    maximal
        Layouts to which nothing can be added.
    multisets_of_maximal
        Multisets of these.
    inclusion_maximal
        Multisets that are part of no larger one.
    """

    placements: int
    multisets: int
    maximal: int
    multisets_of_maximal: int
    inclusion_maximal: int


def occupied_mask(table: MigTable, layout: Iterable[Instance]) -> int:
    """The slots that a layout takes, as bits."""
    mask = 0
    for instance in layout:
        mask |= table.by_name[instance.profile].mask(instance.start)
    return mask


def clash(table: MigTable, layout: Sequence[Instance]) -> MigLayoutError | None:
    """Why these instances cannot be on one GPU, or None where they can."""
    for instance in layout:
        profile = table.profile(instance.profile)
        if instance.start not in profile.starts:
            starts = ", ".join(map(str, profile.starts))
            rule = f"slot {instance.start} is no start of it on {table.model}; starts: {starts}"
            return MigLayoutError(rule, (str(instance),))
    for number, one in enumerate(layout):
        mine = table.profile(one.profile).mask(one.start)
        for other in layout[number + 1 :]:
            both = mine & table.profile(other.profile).mask(other.start)
            if both:
                slots = ", ".join(str(s) for s in range(table.slots) if both >> s & 1)
                rule = f"both take slot{'s' if both & (both - 1) else ''} {slots}"
                return MigLayoutError(rule, (str(one), str(other)))
    kinds = [table.profile(instance.profile) for instance in layout]
    return _crowded(table, kinds)


def _crowded(table: MigTable, kinds: Sequence[Profile]) -> MigLayoutError | None:
    """Rules beside the slots: the most of a profile, media engines, families kept apart."""
    for profile, count in Counter(kinds).items():
        if count > profile.most:
            rule = f"{count} instances, at most {profile.most} of them fit on one GPU"
            return MigLayoutError(rule, (profile.name,))
    media = [profile for profile in kinds if profile.engines == "media"]
    if len(media) > table.media:
        rule = f"one GPU has engines for {table.media} of these"
        return MigLayoutError(rule, tuple(profile.name for profile in media))
    for profile in kinds:
        if profile.engines == "all":
            beside = [p.name for p in kinds if p is not profile and p.engines != "none"]
            if beside or kinds.count(profile) > 1:
                rule = "takes all media engines, so beside it only -me profiles fit"
                return MigLayoutError(rule, (profile.name, *beside[:1]))
    for pair in table.apart:
        if pair <= {profile.family for profile in kinds}:
            names = tuple(sorted(profile.name for profile in kinds if profile.family in pair))
            return MigLayoutError("this driver does not have both on one GPU", names)
    return None


def fits(table: MigTable, layout: Sequence[Instance]) -> bool:
    """Whether the instances can be on one GPU together."""
    return clash(table, layout) is None


@lru_cache(maxsize=65536)
def open_starts(table: MigTable, layout: Layout, profile: Profile) -> tuple[int, ...]:
    """Where one more instance could begin beside those of `layout`, ascending."""
    taken = occupied_mask(table, layout)
    kinds = [table.by_name[instance.profile] for instance in layout]
    if _crowded(table, [*kinds, profile]) is not None:
        return ()
    return tuple(start for start in profile.starts if not taken & profile.mask(start))


def layouts(
    table: MigTable, profiles: Sequence[Profile], occupied: Layout = ()
) -> Iterator[Layout]:
    """Every layout of new instances of `profiles` beside `occupied`; the empty one comes first.

    Each layout comes once. An empty 7-slice GPU has 297 non-empty ones of its five base profiles,
    and 2318 of all seven.
    """
    options = sorted((start, profile.name) for profile in profiles for start in profile.starts)
    places = [Instance(start, name) for start, name in options]
    masks = [table.by_name[place.profile].mask(place.start) for place in places]
    before = [table.by_name[instance.profile] for instance in occupied]
    strict = any(p.engines != "plain" or p.most < len(p.starts) for p in profiles) or table.apart

    def grow(first: int, taken: int, chosen: tuple[Instance, ...]) -> Iterator[Layout]:
        yield chosen
        for number in range(first, len(places)):
            if taken & masks[number]:
                continue
            more = (*chosen, places[number])
            if strict:
                kinds = [*before, *(table.by_name[place.profile] for place in more)]
                if _crowded(table, kinds) is not None:
                    continue
            yield from grow(number + 1, taken | masks[number], more)

    yield from grow(0, occupied_mask(table, occupied), ())


def maximal_layouts(
    table: MigTable, profiles: Sequence[Profile], occupied: Layout = ()
) -> tuple[Layout, ...]:
    """The layouts to which no instance of `profiles` can be added, largest instances first."""
    found = [
        layout
        for layout in layouts(table, profiles, occupied)
        if not any(open_starts(table, (*occupied, *layout), profile) for profile in profiles)
    ]
    found.sort(key=lambda layout: [(-table.by_name[i.profile].compute, i.start) for i in layout])
    return tuple(found)


def counts(table: MigTable, profiles: Sequence[Profile]) -> Counts:
    """Count the layouts of an empty GPU."""
    every = [layout for layout in layouts(table, profiles) if layout]
    maximal = maximal_layouts(table, profiles)
    sets = {multiset(layout) for layout in every}
    counters = [Counter(dict(entry)) for entry in sets]
    topmost = [one for one in counters if not any(one < other for other in counters)]
    return Counts(
        placements=len(every),
        multisets=len(sets),
        maximal=len(maximal),
        multisets_of_maximal=len({multiset(layout) for layout in maximal}),
        inclusion_maximal=len(topmost),
    )


def multiset(layout: Iterable[Instance]) -> tuple[tuple[str, int], ...]:
    """How many instances of each profile, by name."""
    return tuple(sorted(Counter(instance.profile for instance in layout).items()))


def empty_gpu_takes(table: MigTable, profiles: Sequence[Profile]) -> bool:
    """Whether an empty 7-slice GPU takes these plain profiles: slices and slots add up.

    On an empty GPU the amounts decide alone (37 of 37 multisets of the base profiles, 77 of 77
    with the double-memory one); geometry matters once something is in its place.
    """
    return (
        sum(profile.compute for profile in profiles) <= table.compute
        and sum(profile.size for profile in profiles) <= table.slots
    )


@lru_cache(maxsize=65536)
def possibilities(table: MigTable, profiles: tuple[Profile, ...], occupied: Layout) -> int:
    """Layouts of `profiles` that remain possible beside `occupied`, the empty one included."""
    return sum(1 for _ in layouts(table, profiles, occupied))


def best_start(
    table: MigTable,
    profile: Profile,
    occupied: Layout = (),
    wanted: tuple[Profile, ...] | None = None,
) -> int | None:
    """The start of one more instance that keeps most layouts of the rest possible.

    Parameters
    ----------
    wanted
        Profiles that the rest is to be used for; by default the plain ones.

    Returns
    -------
    int or None
        The start; of equally good ones the highest, because 4g and 7g begin at 0. None where the
        instance does not fit.

    Examples
    --------
    >>> from topology.mig.tables import mig_table
    >>> table = mig_table("A100-40GB")
    >>> best_start(table, table.profile("1g.5gb"))
    6
    """
    rest = table.base if wanted is None else wanted
    ranked = [
        (
            possibilities(table, rest, tuple(sorted((*occupied, Instance(start, profile.name))))),
            start,
        )
        for start in open_starts(table, occupied, profile)
    ]
    return max(ranked)[1] if ranked else None
