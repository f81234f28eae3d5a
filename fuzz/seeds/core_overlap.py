"""Seeds of the functions on addresses that are taken."""
from core_calls import call, numbered, u32, u64
from layout import MAX32, MAX64

TOP = 1 << 63


def span(first, last):
    return (first << 16) + last


def overlap_seeds():
    yield from numbered("span_make", u32, ((0, 0), (0, 1023), (65535, 65535), (0, 65535), (65536, MAX32), (9, 4)))
    spans = (0, 1, span(0, 1023), span(1, 0), span(65535, 0), MAX32, 65536)
    yield from numbered("span_first", u32, spans)
    yield from numbered("span_last", u32, spans)
    three = (span(0, 1), span(4, 5), span(8, 9))
    for wanted in (span(0, 0), span(2, 3), span(1, 4), span(5, 8), span(6, 7), span(9, 20), span(10, 65535),
                   span(0, 65535), MAX32, span(9, 3), span(3, 0)):
        for count in (0, 1, 2, 3, 17 + 2):
            yield f"find_overlap_{wanted:x}_{count}", call("find_overlap", u32(wanted, count, *three))
    yield from numbered("check_apart", u64, (
        (0, 4, 4, 4), (0, 5, 4, 4), (4, 4, 0, 4), (4, 4, 0, 5), (4, 4, 4, 4), (4, 0, 4, 4), (4, 4, 4, 0), (4, 4, 5, 0),
        (5, 0, 4, 4), (MAX64, 1, MAX64, 1), (MAX64 - 1, 1, MAX64, 1), (MAX64, 2, 0, 1), (TOP, TOP, 0, TOP),
        (0, MAX64, MAX64, 1), (0, MAX64, MAX64 - 1, 1), (0, 0, 0, 0)))


TOPICS = (overlap_seeds,)
