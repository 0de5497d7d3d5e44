"""Where a gang may go as a whole: groups of nodes, and the order in which they are tried.

A `Path` leads from the inside out: the job's minimum has to find room in its first region as a
whole; what an elastic job takes beyond that goes into the first region that still has room.
"""

from __future__ import annotations

from collections.abc import Iterator

from solver.cluster import GPU_MILLI
from solver.greedy.board import Board
from solver.greedy.scoring import ANYWHERE, Region
from solver.islands import parts_now
from solver.workload import Job, SpreadRule

Path = tuple[Region, ...]
"""Regions that contain each other, the innermost first."""


class Regions:
    """The groups of a problem's nodes, and what of them has room for a job.

    Parameters
    ----------
    inside_out
        Try the smallest group first and go outwards, rather than the groups of the level that
        the job asks for in the order of their first nodes.
    """

    def __init__(self, board: Board, *, inside_out: bool) -> None:
        self._board = board
        self._inside_out = inside_out
        self._levels = board.problem.group_levels
        self._groups: dict[str, tuple[Region, ...]] = {}
        self._group_of: dict[str, list[int]] = {}
        for level in self._levels:
            members = [
                tuple(board.number[node.name] for node in nodes)
                for nodes in board.problem.groups[level].values()
            ]
            self._groups[level] = tuple(Region(nodes) for nodes in members)
            self._group_of[level] = [0] * len(board.nodes)
            for group, nodes in enumerate(members):
                for n in nodes:
                    self._group_of[level][n] = group

    def group_of(self, level: str) -> list[int]:
        """The number of the group that each node is in."""
        return self._group_of[level]

    def groups(self, level: str) -> tuple[Region, ...]:
        """All groups of a level, in the order of their first nodes.

        An island is a set of GPUs of one node: an NVLink island, or a GPU that is in none. A
        node without GPUs is an island without GPUs.
        """
        if level not in self._groups:
            islands = tuple(
                Region((n,), frozenset(gpus))
                for n, node in enumerate(self._board.nodes)
                for gpus in parts_now(node, self._board.state(n))
            )
            if self._board.problem.may_recut:
                return islands  # They are others once GPUs are cut.
            self._groups[level] = islands
        return self._groups[level]

    def paths(self, job: Job) -> Iterator[Path]:
        """Where the job may go as a whole, most wanted first.

        Yields
        ------
        tuple of Region
            Only paths whose first region may have room for the job's minimum.
        """
        if self._inside_out and job.gang and job.replicas > 1:
            return self._from_inside(job)
        return (path for path in self._in_order(job) if self._may_hold(job, path[0]))

    def around(self, job: Job, n: int, gpus: tuple[int, ...]) -> Path:
        """Where a job that is in place (on these GPUs of a node, and maybe others) belongs."""
        rule = job.topology
        if rule is None:
            return (ANYWHERE,)
        if rule.within == "island":
            now = parts_now(self._board.nodes[n], self._board.state(n))
            parts = (frozenset(part) for part in now)
            home = Region((n,), next((p for p in parts if not gpus or gpus[0] in p), None))
        else:
            home = self.groups(rule.within)[self._group_of[rule.within][n]]
        return (home,) if rule.required else (home, ANYWHERE)

    def _in_order(self, job: Job) -> Iterator[Path]:
        rule = job.topology
        alone = job.replicas == 1 or not job.gang
        if rule is None or (alone and rule.within != "island"):
            yield (ANYWHERE,)  # One replica by itself is in one group of every level.
            return
        outside = () if rule.required else (ANYWHERE,)
        yield from ((region, *outside) for region in self.groups(rule.within))
        if outside:
            yield outside

    def _from_inside(self, job: Job) -> Iterator[Path]:
        """Smallest groups first (least GPU left, ties to the first node), level by level."""
        rule = job.topology
        levels = list(reversed(self._levels))
        if rule is not None and rule.within == "island":
            levels.insert(0, "island")
        limit = rule.within if rule is not None and rule.required else None
        if limit is not None:
            levels = levels[: levels.index(limit) + 1]
        seen = set()
        for place, level in enumerate(levels):
            fresh = [region for region in self.groups(level) if region not in seen]
            seen.update(fresh)
            fitting = self._fitting(job, fresh)
            for region in sorted(fitting, key=self._free_milli):
                around = self._around(region, levels[place + 1 :], limit)
                if limit is None:
                    around.append(ANYWHERE)
                elif place + 1 < len(levels) and not self._inside(region, limit):
                    continue  # A domain may reach beyond the rack that the job must stay in.
                yield (self._most_room_first(job, region), *around)
        if limit is None and self._may_hold(job, ANYWHERE):
            yield (self._most_room_first(job, ANYWHERE),)

    def _around(self, region: Region, levels: list[str], limit: str | None) -> list[Region]:
        """The groups around a region, from inside to outside, none beyond a group of `limit`."""
        found = []
        for level in levels:
            group = self._group_around(region, level)
            allowed = limit is None or self._inside(group, limit)
            if allowed and group != region and self._inside(region, level):
                found.append(group)
                region = group
        return found

    def _group_around(self, region: Region, level: str) -> Region:
        assert region.nodes
        return self._groups[level][self._group_of[level][region.nodes[0]]]

    def _inside(self, region: Region, level: str) -> bool:
        assert region.nodes
        return len({self._group_of[level][n] for n in region.nodes}) == 1

    def _free_milli(self, region: Region) -> int:
        assert region.nodes
        return sum(self._board.free_milli(n, region.gpus) for n in region.nodes)

    def _fitting(self, job: Job, regions: list[Region]) -> list[Region]:
        """Those regions that may hold the job; nodes in equal situations are looked at once."""
        known: dict[tuple[int, frozenset[int] | None], bool] = {}
        found = []
        for region in regions:
            assert region.nodes
            if len(region.nodes) > 1:
                held = self._may_hold(job, region)
            else:
                key = (self._board.situation(region.nodes[0], region.gpus), region.gpus)
                if key not in known:
                    known[key] = self._may_hold(job, region)
                held = known[key]
            if held:
                found.append(region)
        return found

    def _may_hold(self, job: Job, region: Region) -> bool:
        """Whether the minimum may find room there: what is quickly seen, so not a promise.

        Each role by itself has to fit, the GPUs have to be enough for all roles together, and the
        groups that the job is spread over have to be enough in number.
        """
        roles = [(role.shape, role.min_replicas) for role in job.roles if role.min_replicas]
        if not job.gang or not roles:
            return True
        if job.spread is not None and not self._may_spread(job, job.spread, region):
            return False
        if region.nodes is not None and len(roles) > 1:
            # What a share said by memory takes is known only once its GPU is.
            wanted = sum((shape.gpus * GPU_MILLI + shape.share_milli) * n for shape, n in roles)
            if self._free_milli(region) < wanted:
                return False
        return all(self._board.room(shape, region, least) >= least for shape, least in roles)

    def _may_spread(self, job: Job, rule: SpreadRule, region: Region) -> bool:
        group_of = self._group_of[rule.over]
        if region.nodes is None:
            groups = len(self._groups[rule.over])
        else:
            groups = len({group_of[n] for n in region.nodes})
        return groups * rule.max_per >= job.min_replicas

    def _most_room_first(self, job: Job, region: Region) -> Region:
        """The region with its nodes in an order that spans few groups when they are filled up.

        Group by group, outermost level first, the one first that takes most replicas of the
        job's largest role.
        """
        nodes = region.nodes if region.nodes is not None else tuple(range(len(self._board.nodes)))
        if len(nodes) == 1:
            return region
        largest = max((role.shape for role in job.roles), key=self._board.problem.gpu_milli)
        room = {n: self._board.fit(n, largest) for n in nodes}
        keys: dict[int, list[int]] = {n: [] for n in nodes}
        for level in self._levels:
            group_of = self._group_of[level]
            total: dict[int, int] = {}
            for n in nodes:
                total[group_of[n]] = total.get(group_of[n], 0) + room[n]
            for n in nodes:
                keys[n] += [-total[group_of[n]], group_of[n]]
        return Region(tuple(sorted(nodes, key=keys.__getitem__)), in_order=True)
