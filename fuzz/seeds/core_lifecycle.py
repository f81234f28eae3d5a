"""Seeds of the lifecycle of mechanisms: every state against every state, and one thing held after the other."""
import itertools

from core_calls import call, u8, u64

ACTIVE, RETIRED, DEVICE_LOST, TERMINATED, BEYOND = range(5)
STATES = (ACTIVE, RETIRED, DEVICE_LOST, TERMINATED, BEYOND, 255)
HOLDINGS, KEEPINGS, FATES, WORKS, MAX64 = 5, 8, 5, 3, 2**64 - 1


def pairs(function, second):
    for state, other in itertools.product(STATES, second):
        yield f"{function}_{state}_{other}", call(function, u8(state, other))


def words():
    for word, state in itertools.product((0, 1, MAX64, 0x100000005), range(4)):
        yield f"word_in_lifecycle_{word:x}_{state}", call("word_in_lifecycle", u64(word), u8(state))
        yield f"lifecycle_of_{word:x}", call("lifecycle_of", u64(word))


def removals():
    for state in STATES:
        yield f"check_removal_{state}_empty", call("check_removal", u8(state), u64(*(0,) * HOLDINGS))
        yield f"check_removal_{state}_full", call("check_removal", u8(state), u64(*(MAX64,) * HOLDINGS))
        for held in range(HOLDINGS):
            counts = [0] * HOLDINGS
            counts[held] = held + 1
            yield f"check_removal_{state}_{held}", call("check_removal", u8(state), u64(*counts))


def lifecycle_seeds():
    yield from pairs("lifecycle_leads", STATES)
    yield from pairs("check_work", range(WORKS))
    yield from pairs("settle_owned", range(FATES))
    yield from pairs("keep_owned", range(KEEPINGS))
    yield from words()
    yield from removals()


TOPICS = (lifecycle_seeds,)
