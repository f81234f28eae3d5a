"""An input made small by leaving out pieces of it, halves first and single bytes last."""


def smaller(data, fails_alike, goes_on):
    """What is left fails as `data` does: `fails_alike` is asked about each step. `goes_on` may end it at any time."""
    piece = len(data) // 2
    while piece > 0 and goes_on():
        less = _without_pieces(data, piece, fails_alike, goes_on)
        if len(less) == len(data):
            piece //= 2
        data = less
        piece = min(piece, len(data) // 2)
    return data


def _without_pieces(data, piece, fails_alike, goes_on):
    """One pass, from the end: what comes late in an input is needed least."""
    at = len(data) - piece
    while at > -piece and goes_on():
        less = data[:max(at, 0)] + data[at + piece:]
        if less and fails_alike(less):
            data = less
        at -= piece
    return data
