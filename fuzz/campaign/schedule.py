"""Who runs next, on how many processors, for how long."""
import dataclasses

from . import places

SHORTEST, LONGEST = 15, 600  # seconds of a slice of --all; each begins with reading the corpus
ROUND = 3600  # seconds after which a campaign on one target tidies up and goes on
JOBS_TOGETHER = 4  # from as many jobs on, slices run beside each other


@dataclasses.dataclass(frozen=True)
class Unit:
    target: str
    engine: str

    def __str__(self):
        return f"{self.target}/{self.engine}"


@dataclasses.dataclass
class Lane:
    """Some processors, on which slices follow each other."""
    jobs: int
    units: tuple  # what may run here


class Schedule:
    """What got least for its share comes next; nothing runs twice at a time."""

    def __init__(self, lanes, slice_seconds):
        self.lanes, self.slice_seconds = lanes, slice_seconds
        self.given = {unit: 0.0 for lane in lanes for unit in lane.units}
        self.busy = set()
        self.dropped = set()

    def next(self, lane):
        free = [unit for unit in lane.units if unit not in self.busy | self.dropped]
        if not free:
            return None
        unit = min(free, key=lambda u: (self.given[u] > 0, self.given[u] / places.share(u.target)))
        self.busy.add(unit)
        return unit

    def drop(self, unit):
        """Never again."""
        self.dropped.add(unit)

    def done(self, unit, job_seconds):
        self.busy.discard(unit)
        self.given[unit] += max(job_seconds, 1e-3)


def spread(jobs, parts):
    """As evenly as it goes, each at least one."""
    parts = min(parts, jobs) or 1
    return [jobs // parts + (part < jobs % parts) for part in range(parts)]


def for_target(target, engines, seconds, jobs):
    """All engines at the same time, each with its part of the jobs; where there are fewer jobs, in turns."""
    units = [Unit(target, engine) for engine in engines]
    parts = spread(jobs, len(units))
    lanes = [Lane(count, tuple(units[at::len(parts)])) for at, count in enumerate(parts)]
    turns = max(len(lane.units) for lane in lanes)
    return Schedule(lanes, min(seconds if turns == 1 else max(SHORTEST, seconds / turns), ROUND))


def for_all(targets, engines, seconds, jobs):
    """Every target on every engine in turns; where there are jobs for it, several at a time, but no more than leave each
    its share: a unit has one lane at most, so a lane may be no less than the greatest share of all jobs."""
    units = tuple(Unit(target, engine) for target in targets for engine in places.engines_of(target) if engine in engines)
    shares = [places.share(unit.target) for unit in units]
    side_by_side = max(1, min(jobs // JOBS_TOGETHER, sum(shares) // max(shares)))
    each = seconds * side_by_side / len(units)
    slice_seconds = min(LONGEST, max(SHORTEST, each / 3))
    return Schedule([Lane(count, units) for count in spread(jobs, side_by_side)], min(slice_seconds, each))
