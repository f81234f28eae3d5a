"""Rows of a test: each a name and the complaints about it; none is a pass."""
import traceback


def tell(rows):
    """Prints TAP; returns the exit code. What a row's generator throws is a failed row."""
    count = failed = 0
    for name, complaints in _safely(rows):
        count += 1
        failed += bool(complaints)
        print(f"{'not ok' if complaints else 'ok'} {count} - {name}", flush=True)
        for complaint in complaints:
            for line in str(complaint).splitlines():
                print(f"#   {line}", flush=True)
    print(f"1..{count}")
    return 1 if failed or not count else 0


def _safely(rows):
    try:
        yield from rows
    except Exception:  # pylint: disable=broad-except
        yield "comes to its end", [traceback.format_exc()]


def same(found, wanted):
    return [] if found == wanted else [f"found {found!r}, needed {wanted!r}"]
