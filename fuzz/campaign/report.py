"""What a campaign says: a line now and then, a summary, the closing line, JSON."""
import dataclasses
import sys

EVERY = 4  # seconds between two lines


def say(text):
    print(text, flush=True)


def complain(text):
    print(f"fuzz: {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass
class Row:
    """What one engine did on one target, all slices together."""
    target: str
    engine: str
    execs: int = 0
    job_seconds: float = 0.0
    seconds: float = 0.0
    slices: int = 0
    edges: int = 0
    without_new_edge: float = 0.0  # seconds of running since the number of edges last rose
    extras: dict = dataclasses.field(default_factory=dict)

    def add(self, crew, seconds):
        self.execs += crew.execs()
        self.seconds += seconds
        self.job_seconds += seconds * crew.jobs
        self.slices += 1
        if crew.best_edges > self.edges:
            self.edges = crew.best_edges
            self.without_new_edge = min(seconds, crew.idle())
        else:
            self.without_new_edge += seconds
        self.extras.update(crew.extras())

    def as_json(self):
        return {**dataclasses.asdict(self), "execs_a_second": rate(self.execs, self.seconds)}


def rate(execs, seconds):
    return round(execs / seconds) if seconds > 0 else 0


def progress(spent, left, what, execs, span, edges, findings, unjudged):
    waiting = f", {unjudged} to be judged" if unjudged else ""
    return (f"[{spent:5.0f} s] {what}: {execs} execs, {rate(execs, span)}/s, {edges} edges, {findings} findings{waiting}, "
            f"{max(0, left):.0f} s left")


def details(row):
    yield (f"  {row.target}/{row.engine}: {row.execs} execs in {row.seconds:.0f} s, {row.edges} edges, no new one for "
           f"{row.without_new_edge:.0f} s")
    stable = [f"{name} {extra['stability']}" for name, extra in sorted(row.extras.items()) if extra.get("stability")]
    if stable:
        yield "    stability: " + ", ".join(stable)


def target_line(target, rows, findings, wall):
    """Edges of the first engine: those of different engines do not compare. `wall`: seconds in which any of them ran."""
    execs = sum(row.execs for row in rows)
    edges = next((row.edges for row in rows if row.edges), 0)
    return f"fuzz {target}: {execs} execs, {rate(execs, wall)}/s, {edges} edges, {findings} findings"


def finding_lines(triage, target):
    for finding in triage.of(target):
        known = ", known before" if finding.known else ""
        yield f"  finding ({finding.times}x{known}): {finding.path}"
        yield f"    {finding.cause.kind}: {finding.cause.line}"
    for raw in triage.apart(target):
        yield f"  did not fail again alone: {raw.kind} of {raw.engine}, {len(raw.data)} bytes"


def finding_json(finding):
    return {"name": finding.name, "file": str(finding.path), "engine": finding.engine, "kind": finding.cause.kind,
            "line": finding.cause.line, "stack": [str(frame) for frame in finding.cause.stack], "times": finding.times,
            "known": finding.known, "shown_by": finding.by, "bytes": len(finding.data)}
