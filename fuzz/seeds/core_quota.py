"""Seeds of the arithmetic of the books: around each limit, on each axis."""
from core_calls import call, u32, u64

MAX64, TOP = 2**64 - 1, 2**63
TAKEN = (10, 20, 30)
USUAL = {"taken": TAKEN, "budget": (100,) * 3, "slice": (90,) * 3, "tier_taken": (40,) * 3, "shares": (120,) * 3,
         "limit": (200,) * 3, "delegated": 0}
TIGHT = USUAL | {"tier_taken": (150,) * 3, "shares": (160,) * 3}
PASSED = USUAL | {"budget": (5, 100, 100), "shares": (40,) * 3, "limit": (30, 200, 200)}
QUOTAS = {"usual": USUAL, "sliced": USUAL | {"delegated": 1}, "tight": TIGHT, "tight_sliced": TIGHT | {"delegated": 7},
          "passed": PASSED, "none": dict.fromkeys(USUAL, (0, 0, 0)) | {"delegated": 0},
          "endless": dict.fromkeys(USUAL, (MAX64,) * 3) | {"delegated": 1}}


def quota(values):
    order = ("taken", "budget", "slice", "tier_taken", "shares", "limit")
    return b"".join(u64(*values[name]) for name in order) + u32(values["delegated"])


def around(numbers):
    """The triple, and for each axis the same with one byte more and one less."""
    yield numbers
    for axis, change in ((axis, change) for axis in range(3) for change in (1, -1)):
        yield tuple((n + change * (i == axis)) % 2**64 for i, n in enumerate(numbers))


RESERVE = [("usual", ask) for ask in (*around((90, 80, 70)), (80, 80, 70), (81, 0, 0), (MAX64, 0, 0))]
RESERVE += [("sliced", ask) for ask in around((80, 70, 60))]
RESERVE += [("tight", ask) for ask in ((40, 40, 40), (40, 41, 0), (40, 40, 41))]
RESERVE += [("tight_sliced", ask) for ask in ((50, 50, 50), (51, 0, 0), (50, 51, 0), (50, 50, 51))]
RESERVE += [("passed", (1, 0, 0)), ("passed", (0, 80, 70)), ("none", (0, 0, 0)), ("none", (0, 0, 1)), ("endless", (1, 1, 1))]
STEPS = [("usual", (10, 10, 10), 5), ("usual", (70, 70, 70), 50), ("sliced", (70, 70, 59), 50), ("endless", (0, 0, 0), MAX64),
         ("tight_sliced", (45, 50, 0), 50), ("usual", (MAX64, 81, 0), 5), ("usual", (0, 0, 0), MAX64), ("none", (0, 0, 0), 1)]
SLICES = [("usual", slice_) for slice_ in (*around(TAKEN), *around((90, 100, 110)))] + [("sliced", TAKEN), ("none", (0, 0, 0))]
PAIRS = [(first, second) for first in ((0, 0, 0), (5, 6, 7), (TOP, TOP - 1, TOP - 2), (MAX64,) * 3)
         for second in (*around((5, 6, 7)), (0, 0, 0), (1, 2, 3), (TOP,) * 3, (MAX64, 0, 1))]


def quota_seeds():
    for name, values in QUOTAS.items():
        yield f"quota_share_{name}", call("quota_share", quota(values))
    for number, (name, ask) in enumerate(RESERVE):
        yield f"check_reserve_{number}", call("check_reserve", quota(QUOTAS[name]), u64(*ask))
    for number, (name, ask, step) in enumerate(STEPS):
        yield f"quota_step_{number}", call("quota_step", quota(QUOTAS[name]), u64(*ask, step))
    for number, (name, slice_) in enumerate(SLICES):
        yield f"check_delegation_{number}", call("check_delegation", quota(QUOTAS[name]), u64(*slice_))
    for function in ("quota_beyond", "settle_commit", "axes_take", "axes_add", "axes_adopt", "axes_refund"):
        for number, (first, second) in enumerate(PAIRS):
            yield f"{function}_{number}", call(function, u64(*first, *second))


TOPICS = (quota_seeds,)
