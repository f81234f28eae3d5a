"""Seeds of the functions on granules, on places in an arena, and on what an arena is opened with."""
from itertools import product

from core_calls import call, numbered, u8, u32, u64
from layout import MAX32, MAX64

TOP = 1 << 63
MIB2 = 2 << 20
NONE, PRIVATE, OWNER, SHARER = range(4)


def granule(references, mapping, poisoned=0, quarantined=0):
    return u32(references) + u8(mapping, poisoned, quarantined, 0)


GRANULES = [granule(*g) for g in (
    (0, NONE), (1, NONE), (2, NONE), (MAX32, NONE), (0, PRIVATE), (1, PRIVATE), (2, PRIVATE), (MAX32 - 1, PRIVATE),
    (MAX32, PRIVATE), (0, OWNER), (1, OWNER), (0, SHARER), (1, SHARER), (0, PRIVATE, 1), (1, PRIVATE, 1), (2, PRIVATE, 1),
    (0, SHARER, 1), (1, OWNER, 1), (0, NONE, 0, 1), (1, NONE, 0, 1), (2, PRIVATE, 0, 1), (0, PRIVATE, 0, 1),
    (1, SHARER, 0, 1), (0, PRIVATE, 1, 1))]
BROKEN = [granule(*g) for g in ((2, OWNER), (2, SHARER), (0, NONE, 1), (1, 4), (0, PRIVATE, 2), (0, PRIVATE, 0, 2),
                                (1, 255, 255, 255), (1, NONE, 1))]


def granule_seeds():
    for function in ("granule_is_valid", "granule_rests", "granule_must_map", "granule_must_unmap", "check_granule_take",
                     "check_granule_decommit"):
        for bytes_ in GRANULES + BROKEN:
            yield function, call(function, bytes_)
    for function in ("granule_take", "granule_drop", "granule_unmapped", "granule_poison", "granule_quarantine"):
        for bytes_ in GRANULES:
            yield function, call(function, bytes_)
    for function, (bytes_, mapping) in product(("check_granule_map", "granule_mapped"), product(GRANULES, (0, 1, 2))):
        yield function, call(function, bytes_, u8(mapping))


# ---- Spans of granules: references, and mapping + 4 * poisoned + 8 * quarantined --------------------------------------

FREE, TAKEN, HELD, LEFT = (0, NONE), (1, NONE), (1, PRIVATE), (0, PRIVATE)
POISONED, KEPT, VIEW, FULL = (0, PRIVATE + 4), (1, PRIVATE + 8), (1, SHARER), (255, PRIVATE)
TWICE, VIEWLESS = (2, PRIVATE), (0, SHARER)
SPANS = ([], [FREE], [TAKEN], [HELD], [LEFT], [POISONED], [KEPT], [VIEW], [FULL], [TWICE], [VIEWLESS],
         [FREE, HELD, FREE], [TAKEN, TAKEN, HELD, TAKEN], [HELD, LEFT, LEFT, HELD, LEFT], [LEFT, LEFT, VIEWLESS],
         [HELD, POISONED, LEFT], [FREE, KEPT], [HELD, VIEW, HELD], [HELD, HELD, FULL], [HELD, TWICE, HELD],
         [TWICE, HELD, FREE], [FREE] * 6, [TAKEN] * 6, [LEFT] * 6, [LEFT, POISONED, LEFT], [(2, NONE), (3, NONE)],
         [POISONED, KEPT, VIEW, FULL], [HELD, TAKEN, FREE, LEFT, TWICE, KEPT])


def span(granules):
    return u8(len(granules)) + b"".join(u8(*g) for g in granules)


def granules_seeds():
    for granules in SPANS:
        for function in ("granules_cost", "check_granules_take", "granules_take", "granules_drop", "granules_unmapped",
                         "granules_quarantine", "check_granules_decommit"):
            yield function, call(function, span(granules))
        for start, kind in product(range(min(len(granules), 3) + 1), range(4)):
            yield "next_run", call("granules_next_run", span(granules), u8(start, kind))
    for one, kind in product((FREE, TAKEN, HELD, LEFT, POISONED, KEPT, VIEW, TWICE, VIEWLESS), range(4)):
        yield "granule_is", call("granule_is", span([one]), u8(kind))


# ---- Places ----------------------------------------------------------------------------------------------------------


def place_seeds():
    for bytes_, align, exponent in product((0, 1, 255, 256, 257, TOP, MAX64 - 255, MAX64 - 254, MAX64),
                                           (0, 1, 3, 256, 512, TOP, MAX64), (0, 8, 63)):
        yield "ask", call("place_ask", u64(bytes_, align), u8(exponent))
    yield from numbered("place_fit", u64, (
        (0, 0, 0, 1), (0, 0, 1, 1), (0, 4096, 4096, 4096), (0, 4096, 4097, 1), (1, 4096, 1, 4096), (1, 4095, 1, 4096),
        (256, 1024, 512, 512), (256, 1024, 768, 512), (256, 1024, 769, 512), (256, 768, 0, 512), (MAX64, 0, 0, 2),
        (MAX64 - 1, 1, 1, 1), (MAX64 - 1, 1, 1, 2), (MAX64 - 1, 1, 2, 1), (5, 10, MAX64, 3), (TOP, TOP - 1, TOP - 1, TOP),
        (TOP + 1, TOP - 2, 1, TOP)))
    yield from numbered("place_cut", u64, ((0, 0, 0, 0), (0, 4096, 0, 4096), (4096, 4096, 256, 256), (4096, 4096, 0, 256),
                                           (4096, 4096, 3840, 256), (0, MAX64, 1, MAX64 - 1), (MAX64, 0, 0, 0),
                                           (TOP, TOP - 1, TOP - 2, 1)))
    yield from numbered("place_joins", u64, ((0, 4096, 4096), (0, 4096, 4095), (0, 4096, 4097), (4096, 0, 4096),
                                             (MAX64 - 1, 1, MAX64), (MAX64, 0, MAX64), (1, MAX64 - 1, 0)))
    arena = (4096, 8192)
    for one in ((4096, 0), (4096, 8192), (4095, 1), (4096, 8193), (12288, 1), (12287, 1), (12289, 0), (12289, 1),
                (5000, 100), (5000, MAX64), (0, MAX64), (MAX64, 1)):
        for below in ((0, 0), (4096, 904), (4096, 905), (4096, MAX64)):
            for above in ((0, 0), (5100, 5), (5099, 5)):
                yield "back", call("place_check_back", u64(*arena, *one, *below, *above))
    yield from numbered("place_check_back", u64, ((0, MAX64, MAX64 - 1, 1, 0, 0, 0, 0), (0, MAX64, MAX64, 1, 0, 0, 0, 0),
                                                  (0, MAX64, 0, MAX64, 0, 0, MAX64 - 1, 1),
                                                  (4096, 8192, 5000, 100, 5000, 100, 5000, 100),
                                                  (4096, 8192, 5000, 100, 5050, 0, 0, 0),
                                                  (4096, 8192, 5000, 100, 0, 0, 5050, 0)))


def granule_number_seeds():
    yield from numbered("granule_of", u64, ((0, 1), (MIB2 - 1, MIB2), (MIB2, MIB2), (MAX64, 1), (MAX64, MAX64), (5, 3)))
    yield from numbered("granules_whole", u64, (
        (0, 0, 4096), (0, 4095, 4096), (0, 4096, 4096), (1, 4096, 4096), (1, 8191, 4096), (1, 8190, 4096),
        (4095, 4097, 4096), (4096, 12288, 4096), (4097, 12288, 4096), (0, MAX64, 1), (0, MAX64, MAX64), (1, MAX64 - 1, TOP),
        (MAX64, 0, TOP), (MAX64 - 1, 1, 1), (5, 10, 3)))
    yield from numbered("granule_address", u64, (
        (0, 0, 1), (4096, 3, 4096), (MAX64, 0, MIB2), (MAX64, 1, 1), (MAX64 - 4096, 1, 4096), (MAX64 - 4095, 1, 4096),
        (0, MAX64, 1), (1, MAX64, 1), (0, MAX64, MAX64), (0, 1, MAX64), (TOP, 1, TOP), (0, 1 << 32, 1 << 32),
        (0, (1 << 32) - 1, 1 << 32)))
    yield from numbered("granule_index", u64, (
        (4096, 8192, 4096, 4095), (4096, 8192, 4096, 4096), (4096, 8192, 4096, 8191), (4096, 8192, 4096, 8192),
        (4096, 8192, 4096, 12287), (4096, 8192, 4096, 12288), (0, 0, 1, 0), (0, MAX64, 1, MAX64 - 1), (0, MAX64, 1, MAX64),
        (MAX64, 1, 1, MAX64), (MAX64, MAX64, 1, 0), (9, MAX64, 2, MAX64)))
    yield from numbered("granules_bytes", u64, ((0, MIB2), (1, TOP), (2, TOP), (1, TOP + 1), (TOP, 1), (TOP + 1, 1),
                                                (1 << 31, 1 << 32), ((1 << 31) + 1, 1 << 32), (MAX64, MAX64), (3, 7)))


# ---- Arenas ----------------------------------------------------------------------------------------------------------


def arena_seeds():
    sizes = (0, 1, 3, 2048, 4096, MIB2, MIB2 + 1, 32 << 20, 1 << 30, 1 << 31, TOP, MAX64)
    yield from numbered("granule_choose", u64, product(sizes, sizes))
    yield from numbered("ladder_start", u64, (
        (139 << 30, 16, 1 << 40, 64 << 30, MIB2), (1 << 30, 16, 1 << 40, 64 << 30, MIB2), (0, 0, 0, 1 << 30, MIB2),
        (0, 16, 0, MIB2 - 1, MIB2), (0, 16, 0, MIB2, MIB2), (MAX64, 2, 1, MIB2, MIB2), (MAX64, 1, 0, MIB2, MIB2),
        (1 << 32, 1 << 32, 0, 7, 7), ((1 << 32) - 1, 1 << 32, 0, 7, 7), (1, 3, 2, 1, 1), (5, 1, 4, 3, 2), (5, 0, 4, 7, 2),
        (0, MAX64, MAX64, MAX64, MAX64), (MAX64, 0, 0, 1, 1)))
    yield from numbered("ladder_next", u64, ((1 << 36, (1 << 40) - (1 << 36), MIB2), (1 << 36, 1 << 36, MIB2), (1 << 36, 1, 7),
                                             (1 << 36, 0, MIB2), (1, MAX64, 1), (1, 1, MAX64), (4, 7, 4), (1, 2, 1),
                                             (MAX64, 0, 1), (3, 4, 2)))
    bounds = (0, 1, MIB2 - 1, MIB2, 256 << 20, MAX64)
    yield from numbered("pool_may_keep", u64, product((0, 1, (256 << 20) - MIB2, (256 << 20) - MIB2 + 1, MAX64), (1, MIB2), bounds))
    pairs = ((0, 0), (0, 1), (1, 0), (5, 5), (5, 6), (6, 5), (MAX64, MAX64), (MAX64, 0), (0, MAX64), (MAX64 - 1, MAX64))
    for function in ("total_subtract", "peak"):
        yield from numbered(function, u64, pairs)
    yield from numbered("check_not_queued", u64, (0, 1, 2, 1 << 32, MAX64))
    uses = product((0, 1, 2, 1 << 32, MAX64 - 1, MAX64), (0, 1, 2, 1 << 32, MAX64 - 1, MAX64))
    for use in uses:
        for function in ("prefix_use_retain", "prefix_use_release", "prefix_view", "prefix_unview", "prefix_is_gone"):
            yield f"{function}_{use[0]:x}_{use[1]:x}", call(function, u64(*use))


TOPICS = (granule_seeds, granules_seeds, place_seeds, granule_number_seeds, arena_seeds)
