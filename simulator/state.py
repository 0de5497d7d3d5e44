"""The cluster at an instant: who waits, who runs where; and the few ways in which that changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.agenda import Agenda, Kind
from simulator.lives import Life, State
from simulator.scenario import Scenario
from simulator.stretch import Stretch
from solver.cluster import Node
from solver.greedy.board import Seat
from solver.greedy.draft import Draft
from solver.greedy.scoring import PlacementPolicy
from solver.problem import Problem, RoleKey
from solver.slices import are_open, with_instances
from solver.solution import Placement
from solver.workload import Job, Role, RunningJob, RunningReplica


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs that start together: one, or all of a start group."""

    lives: tuple[Life, ...]
    lane: int
    """Equal for units that ask for exactly the same, so that they fare alike."""

    @property
    def life(self) -> Life:
        """The member that decides its place in the order: the oldest one."""
        return self.lives[0]

    @property
    def jobs(self) -> list[Job]:
        """What the members ask for."""
        return [life.arrival.job for life in self.lives]

    @property
    def queue(self) -> str:
        """The queue that the unit waits in."""
        return self.life.arrival.job.queue


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log: what happened to which job when, holding how many GPU-milli after it."""

    time_ms: int
    what: str
    job: str
    gpu_milli: int


class Cluster:
    """Waiting and running jobs on the machines of a scenario.

    Nothing here decides anything: schedulers do, through `start`, `evict`, `move`, `grow` and
    `shrink`.

    Attributes
    ----------
    held_milli, wanted_milli
        By queue: GPU-milli that its jobs hold, and that the minimums of waiting ones ask for.
    busy_milli
        GPU-milli of jobs that run (a job that waits for its last replicas holds idle ones).
    last_end_ms, last_change_ms
        When a job ended last, and when one arrived, started or ended.
    gained
        Nodes (by number) where something was given back since a scheduler last looked.

    Parameters
    ----------
    policy
        Where replicas go.
    penalty
        The inter-island penalty on run time (see `Stretch`).
    """

    def __init__(self, scenario: Scenario, policy: PlacementPolicy, penalty: float = 0.0) -> None:
        self.scenario = scenario
        self.problem: Problem = scenario.problem
        self._placement = policy
        self.draft = Draft(self.problem, policy)
        self.stretch = Stretch(self.problem, penalty)
        self.agenda = Agenda()
        self.now_ms = 0
        self.last_end_ms: int | None = None
        self.last_change_ms = 0
        unit = self.stretch.unit
        self.lives = [Life(arrival, n, unit) for n, arrival in enumerate(scenario.everyone)]
        self.by_name = {life.name: life for life in self.lives}
        self.waiting: dict[str, Life] = {}
        self.running: dict[str, Life] = {}
        self.elastic: dict[str, Life] = {}
        queues = [queue.name for queue in scenario.queues]
        self.held_milli = dict.fromkeys(queues, 0)
        self.wanted_milli = dict.fromkeys(queues, 0)
        self.busy_milli = 0
        self.log: list[Entry] = []
        self.gained: set[int] = set()
        for work in scenario.standing:
            life = self.by_name[work.arrival.job.name]
            self.waiting[life.name] = life
            self._seat(life, work.placements, checked=False)  # A GPU may have failed under it.
            self._launch(life)
            life.run_before(work.checkpoint_age_ms)
        self.settle()

    # What is asked

    def surplus(self) -> list[Life]:
        """Elastic jobs that hold more than their minimum, the youngest first."""
        return [
            life
            for life in reversed(self.elastic.values())
            if life.held > life.arrival.job.min_replicas
        ]

    # What happens

    def submit(self, life: Life) -> None:
        """A job arrives."""
        self.waiting[life.name] = life
        self.last_change_ms = self.now_ms
        self._count(life)
        self._placement.hear(life.arrival.job, self.now_ms)
        self._note("arrive", life)

    def refuse(self, life: Life, state: State, reason: str) -> None:
        """A job that waits leaves for good."""
        del self.waiting[life.name]
        life.state, life.reason, life.end_ms = state, reason, self.now_ms
        self._count(life)
        self._note("refuse", life)

    def start(self, unit: Unit) -> bool:
        """Start the minimums of jobs that wait, where the policy puts them; all or nothing."""
        if not self.draft.start(unit.jobs):
            return False
        for life in unit.lives:
            self._launch(life)
        return True

    def start_at(self, unit: Unit, seats: Sequence[Placement]) -> None:
        """Start jobs that wait in places that are known to be free."""
        for life in unit.lives:
            self._seat(life, [p for p in seats if p.job == life.name])
            self._launch(life)

    def place_again(self, places: Mapping[str, Sequence[Placement]]) -> None:
        """Move jobs that have just started, before they have done anything."""
        lives = [self.by_name[name] for name in places]
        for life in lives:
            self.draft.release(life.arrival.job)
        for life in lives:
            self._seat_again(life, places[life.name])

    def move(self, places: Mapping[str, Sequence[Placement]]) -> None:
        """Stop running jobs and start them at once elsewhere; they lose what a stop loses."""
        lives = [self.by_name[name] for name in places]
        for life in lives:
            life.stop(self.now_ms)
            self._release(life)
        for life in lives:
            self._seat_again(life, places[life.name])
            self._note("move", life)

    def finish(self, life: Life) -> None:
        """A job has run for its time."""
        life.advance(self.now_ms)
        failed = life.arrival.outcome == "failed"
        self._leave(life, State.FAILED if failed else State.FINISHED)
        life.reason = "the job failed by itself" if failed else ""
        life.end_ms, life.held = self.now_ms, 0
        self.last_end_ms = self.last_change_ms = self.now_ms
        self._note("end", life)

    def evict(self, life: Life) -> None:
        """Stop a job for another; it waits again."""
        life.stop(self.now_ms)
        self.waiting[life.name] = life
        self._leave(life, State.WAITING)
        life.version += 1
        life.end_ms = None
        self._note("evict", life)

    def grow(self, life: Life, role: Role, hold: Callable[[], None] | None = None) -> bool:
        """Let an elastic job have one more replica, if there is room.

        Parameters
        ----------
        hold
            Holds back what is not to be taken.
        """
        job = life.arrival.job
        mark = self.draft.mark()
        if hold is not None:
            hold()
        found = self.draft.add(job, role)
        seat = self.draft.seats(life.name)[-1][1] if found else None
        self.draft.roll_back(mark)
        if seat is None:
            return False
        self.draft.put(job, role, seat)
        self._resize(life, "grow")
        return True

    def shrink(self, life: Life) -> None:
        """Take one replica of its surplus from an elastic job: the one that came last."""
        _, seat = self.draft.seats(life.name)[-1]
        self.gained.add(seat.node)
        self.draft.release_one(life.arrival.job, life.held - 1)
        self._resize(life, "shrink")

    def take_pod(self, life: Life, role: Role) -> bool:
        """Let a job that waits have one replica, gang or not; it does not run yet."""
        job = replace(life.arrival.job, gang=False, topology=None)
        if not self.draft.add(job, role):
            return False
        self._count(life)
        self._note("pod", life)
        return True

    def launch(self, life: Life) -> None:
        """A job that waited has all the seats that it needs: it runs."""
        self._launch(life)

    def drop_pods(self, life: Life) -> None:
        """A job that waits lets go of the replicas that it has."""
        self._release(life)
        self._count(life)
        self._note("drop", life)

    def settle(self) -> set[int]:
        """A moment is over; the nodes (by number) on which anything changed."""
        return self.draft.settle()

    # How it is booked

    def _seat(self, life: Life, placements: Sequence[Placement], *, checked: bool = True) -> None:
        number = self.draft.board.number
        for place in placements:
            role = self.problem.role_by_key[RoleKey(place.job, place.role)]
            seat = Seat(number[place.node], place.gpus, place.share_milli, place.instances)
            state = self.draft.board.state(seat.node)
            left, node = state.gpu_left, self.draft.board.nodes[seat.node]
            taken = any(left[gpu] < seat.share_milli for gpu in seat.gpus)
            if checked and (taken or not are_open(node, state, seat.instances)):
                raise AssertionError(f"{place} is taken already at {self.now_ms} ms")
            self.draft.put(life.arrival.job, role, seat)

    def _seat_again(self, life: Life, places: Sequence[Placement]) -> None:
        self._seat(life, places)
        life.held = len(places)
        self._count(life)
        life.stretch_milli = self.stretch.milli(life.arrival.job, places)
        self._schedule_end(life)

    def _launch(self, life: Life) -> None:
        """A job that waited has its seats."""
        job = life.arrival.job
        del self.waiting[life.name]
        self.running[life.name] = life
        if life.is_elastic:
            self.elastic[life.name] = life
        life.state = State.RUNNING
        life.updated_ms = self.last_change_ms = self.now_ms
        life.held = len(self.draft.seats(life.name))
        if life.first_start_ms is None:
            life.first_start_ms = self.now_ms
        if self.stretch.penalizes:
            life.stretch_milli = self.stretch.milli(job, self.draft.placements(life.name))
        self._count(life)
        self._schedule_end(life)
        self._note("start", life)

    def _leave(self, life: Life, state: State) -> None:
        del self.running[life.name]
        self.elastic.pop(life.name, None)
        self._release(life)
        life.state = state
        self._count(life)

    def _release(self, life: Life) -> None:
        self.gained.update(seat.node for _, seat in self.draft.seats(life.name))
        self.draft.release(life.arrival.job)

    def _resize(self, life: Life, what: str) -> None:
        life.advance(self.now_ms)
        life.held = len(self.draft.seats(life.name))
        self._count(life)
        self._schedule_end(life)
        self._note(what, life)

    def _count(self, life: Life) -> None:
        """Book what a job holds now, and what it waits for, on its queue."""
        queue = life.arrival.job.queue
        holds = sum(self._holds_milli(*seat) for seat in self.draft.seats(life.name))
        busy = holds if life.state is State.RUNNING else 0
        wants = 0
        if life.state is State.WAITING:
            wants = max(0, self._wish_milli(life) - holds)
        self.held_milli[queue] += holds - life.holding_milli
        self.busy_milli += busy - life.busy_milli
        self.wanted_milli[queue] += wants - life.wanting_milli
        life.holding_milli, life.busy_milli, life.wanting_milli = holds, busy, wants

    def _holds_milli(self, role: Role, seat: Seat) -> int:
        """Thousandths of GPUs of one seat; instances count by their memory slots."""
        if seat.instances:
            return self.problem.gpu_milli(role.shape)
        return seat.share_milli * len(seat.gpus)

    def _schedule_end(self, life: Life) -> None:
        life.version += 1
        life.end_ms = life.ends_at_ms()
        if life.end_ms is not None:
            self.agenda.add(life.end_ms, Kind.END, life.name, life.version)

    def _wish_milli(self, life: Life) -> int:
        """GPU-milli that a waiting job asks for at least."""
        return sum(
            self.problem.gpu_milli(role.shape) * role.min_replicas
            for role in life.arrival.job.roles
        )

    def _note(self, what: str, life: Life) -> None:
        self.log.append(Entry(self.now_ms, what, life.name, life.holding_milli))

    # The same as the solver sees it

    def running_jobs(self, without: Sequence[Life] = ()) -> list[RunningJob]:
        """What holds a place, as running work of a problem; some of it may be left out.

        That is what runs, and what waits with some of its replicas in place.
        """
        left_out = {life.name for life in without}
        holders = [life for life in self.waiting.values() if self.draft.seats(life.name)]
        return [
            self.running_job(life)
            for life in (*self.running.values(), *holders)
            if life.name not in left_out
        ]

    def running_job(self, life: Life) -> RunningJob:
        """A job with its replicas in their places."""
        job = life.arrival.job
        shapes = {role.name: role.shape for role in job.roles}
        places = self.draft.placements(life.name)
        return RunningJob(
            name=life.name,
            replicas=tuple(
                RunningReplica.seated(shapes[p.role], p.node, p.gpus, p.share_milli) for p in places
            ),
            shapes=tuple(shapes[p.role] for p in places),
            queue=job.queue,
            priority=job.priority,
        )

    def snapshot(self, jobs: Sequence[Job], running: Sequence[RunningJob] | None = None) -> Problem:
        """The question that this instant puts to a policy: what runs, and these jobs that wait."""
        holders = tuple(self.running_jobs() if running is None else running)
        return Problem(
            name=self.problem.name,
            levels=self.problem.levels,
            nodes=self._nodes(holders),
            queues=self.problem.queues,
            running=holders,
            jobs=tuple(jobs),
            reference_shapes=self.problem.reference,
        )

    def _nodes(self, holders: Sequence[RunningJob]) -> tuple[Node, ...]:
        """The machines with the instances that these jobs have on them in use."""
        if not self.problem.has_slices:
            return self.problem.nodes
        nodes = dict(self.problem.node_by_name)
        for job in holders:
            for place in self.draft.placements(job.name)[: len(job.replicas)]:
                nodes[place.node] = with_instances(nodes[place.node], place.instances, job.name)
        return tuple(nodes.values())
