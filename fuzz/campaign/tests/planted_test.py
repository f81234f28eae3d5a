#!/usr/bin/env python3
"""Campaigns on a copy with a fault in it: each engine finds it, triage makes a test of it, and nothing is left running.

    planted_test.py COPY [--contracts FOLDER] [--only GROUP]

COPY is a folder for the copy, kept and brought up to date; FOLDER is a build folder whose translated contracts are
taken as a start (without it the contracts are left out). Prints TAP.
"""
import argparse
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import tomllib

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from campaign import corpus as corpus_module  # noqa: E402
from campaign import places  # noqa: E402
from campaign.tests.planted_copy import Copy  # noqa: E402
from campaign.tests.tap import same, tell  # noqa: E402

FAULT = "allocator_size_floor_one_too_low"  # an allocator's table one byte short is taken
BROKEN_CLAUSE = "level_above_the_ceiling"  # no byte is touched that should not be: only what is answered is wrong
LONG = 900  # seconds; the first finding ends a campaign
CLOSING = re.compile(r"^fuzz (\w+): \d+ execs, \d+/s, \d+ edges, (\d+) findings$")

# Faults of the test's own, in the middle of a reader: one without an end, one that wants too much.
PLACE = ("abi/src/prefix.c", "if (size < NXMEM_FACTORY_BYTES) return")
ENDLESS = "while (size == 57u) { __asm__ volatile(\"\"); } " + PLACE[1]
GREEDY = ("if (size == 57u) { extern void *malloc(unsigned long); char *volatile p = malloc(3ul << 30); if (p) *p = 1; } "
          + PLACE[1])


def inputs(copy, target):
    return [path for path in places.inputs_in(copy.found(target)) if path.stem.startswith(f"{target}-")]


def forget(copy, target):
    for path in list(copy.found(target).glob(f"{target}-*")):
        path.unlink()


def closing(done):
    lines = done.stdout.splitlines()
    found = CLOSING.match(lines[-1]) if lines else None
    return int(found[2]) if found else None


def words(done):
    return [done.stdout[-3000:] + done.stderr[-3000:]]


def found_one(copy, target, done):
    """One cause, one input, one note beside it."""
    here = inputs(copy, target)
    notes = sorted(path.name for path in copy.found(target).glob("*.toml"))
    wrong = same(done.returncode, 1) + same(closing(done), 1) + same(len(here), 1)
    wrong += same(notes, [path.with_suffix(".toml").name for path in here])
    return wrong + words(done) if wrong else []


def note_of(path):
    return tomllib.loads(path.with_suffix(".toml").read_text())


def without_seeds_that_show_it(copy, target):
    """So that the engine itself has to find it. Returns the seeds taken away."""
    seeds = copy.root / "fuzz/seeds" / target
    _, failing, _ = copy.replay(target, seeds)
    data = [(seeds / name).read_bytes() for name in failing]
    for name in failing:
        (seeds / name).unlink()
    return data


def build_replay(copy):
    subprocess.run(["cmake", "--preset", "asan"], cwd=copy.root, check=True, stdout=subprocess.DEVNULL)


# ---- libFuzzer, and triage -------------------------------------------------------------------------------------------

def libfuzzer_rows(copy, shown):
    out = copy.root / "build/campaign.json"
    done = copy.run("table", LONG, "--first", "--json", out)
    yield "libfuzzer: finds it without a seed that shows it", found_one(copy, "table", done)
    path = inputs(copy, "table")[0]
    yield "triage: named by target, kind and what happened", [] if re.fullmatch(
        r"table-oracle-[a-z-]*verdict-reason[a-z-]*-[0-9a-f]{8}", path.stem) else [path.stem]
    note = note_of(path)
    yield "triage: the note says target, engine, line, stack and how to run it again", same(
        [note["target"], note["engine"], "verdict: reason" in note["line"], path.name in note["again"],
         any("fuzz/targets/table.c" in frame for frame in note["stack"])], ["table", "libfuzzer", True, True, True])
    report = json.loads(out.read_text())
    yield "--json: the finding, its cause and its file", same(
        [(row["name"], row["file"], row["known"]) for row in report["findings"]], [(path.stem, str(path), False)])
    again = subprocess.run(note["again"].partition("&& ")[2].partition("&& ")[2], shell=True, cwd=copy.root, check=False,
                           capture_output=True, text=True)
    yield "triage: what the note says to run fails as it says", [] if note["line"] in again.stderr else [again.stderr]
    yield "replay: red as long as the fault is there, and notes are no inputs", same(
        copy.replay("table", copy.found("table")), (1, [path.name], 1))
    forget(copy, "table")
    corpus = copy.root / "build/fuzz/corpus/table"
    corpus.mkdir(parents=True, exist_ok=True)
    for data, junk in ((shown[0], b"\x41"), (shown[-1], b"\x42")):
        (corpus / places.content_name(data + junk * 100)).write_bytes(data + junk * 100)
    done = copy.run("table", LONG, "--first")
    yield "triage: two inputs of one cause are one finding", found_one(copy, "table", done)
    note = note_of(inputs(copy, "table")[0])
    yield "triage: an input is made smaller", same(note["bytes"] <= note["bytes_as_found"] - 90, True)
    yield "triage: and what it begins with shows it no more", same(list(corpus.glob("*")) == [] or not [
        p for p in places.inputs_in(corpus) if p.read_bytes().endswith((b"\x41" * 90, b"\x42" * 90))], True)
    sync = copy.root / "build/sync"
    done = copy.run("table", LONG, "--first", "--json", out, "--sync", sync, "--machine", "a")
    report = json.loads(out.read_text())
    yield "triage: an open finding stays one, is known, and fails every campaign", found_one(copy, "table", done) + same(
        [row["known"] for row in report["findings"]], [True])
    here = inputs(copy, "table")[0]
    yield "--sync: what was found is there for the others", same(
        sorted(path.name for path in (sync / "found/table").glob("*")), [here.name, here.with_suffix(".toml").name])


def bounded_rows(copy):
    """A corpus in which nearly everything is superfluous, and no fault."""
    corpus = copy.root / "build/fuzz/corpus/table"
    corpus.mkdir(parents=True, exist_ok=True)
    seed = places.inputs_in(copy.root / "fuzz/seeds/table")[0].read_bytes()
    for number in range(corpus_module.ROOM + 50):
        data = seed + number.to_bytes(2, "little")
        (corpus / places.content_name(data)).write_bytes(data)
    done = copy.run("table", 3)
    left = len(places.inputs_in(corpus))
    yield "without a fault: no finding, exit code 0", [] if (done.returncode, closing(done)) == (0, 0) else words(done)
    yield "corpus: what adds nothing goes", [] if left < corpus_module.ROOM / 2 else [f"{left} inputs left"]


def afl_rows(copy, name):
    forget(copy, "table")
    done = copy.run("table", LONG, "--first", "--engine", "afl", "--jobs", 2)
    yield "afl: main and a sanitized secondary find it", found_one(copy, "table", done)
    yield "afl: the same cause has the same name, whoever found it", same(
        [path.name for path in inputs(copy, "table")], [name])
    yield "afl: nothing is left running", copy.processes()


def end_rows(copy):
    """A campaign on two engines, ended by somebody while both run."""
    for name, number in (("SIGINT", signal.SIGINT), ("SIGKILL of the driver", signal.SIGKILL)):
        process = subprocess.Popen(copy.command("table", LONG, "--engine", "libfuzzer,afl", "--jobs", 2), cwd=copy.root,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if (copy.root / "build/fuzz/afl/table/out/main/fuzzer_stats").exists() and re.search(r": [1-9]\d* execs", line):
                break
        driver = int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        subprocess.run(["kill", f"-{int(number)}", str(process.pid if number == signal.SIGINT else driver)], check=True)
        rest = process.stdout.read()
        code = process.wait()
        if number == signal.SIGINT:
            yield f"end by {name}: sums up all the same", same(code, 1) + ([] if CLOSING.match(
                rest.splitlines()[-1]) else ["".join(lines)[-1000:] + rest])
        else:
            yield f"end by {name}: is an end by a signal", same(code, 137)
        yield f"end by {name}: nothing is left running", copy.processes()


def limit_rows(copy):
    """Time and memory are limits too. Whatever runs, an input has a few seconds here."""
    for name, put, kinds in (("time-out", ENDLESS, ("timeout",)), ("too much memory", GREEDY, ("address", "memory"))):
        copy.restore()
        copy.replace(*PLACE, put)
        done = copy.run("table", LONG, "--first", "--alone", 10)
        yield f"{name}: is a finding", found_one(copy, "table", done)
        note = note_of(inputs(copy, "table")[0])
        yield f"{name}: named as what it is, in the product", same(
            [note["kind"] in kinds, any(" abi/src/prefix.c" in frame for frame in note["stack"])], [True, True])
        if name != "time-out":
            yield f"{name}: red when replayed", same(copy.replay("table", copy.found("table"))[0], 1)


def unreproduced_rows(copy):
    """A target that fails at its 20,000th input, whatever it is: nothing alone shows it."""
    copy.replace("fuzz/support/harness.c", "  (*inputs_run)++;\n",
                 "  (*inputs_run)++;\n  static int calls;\n  if (++calls == 20000) fuzz_fail(\"chance\", \"again\");\n")
    done = copy.run("table", LONG, "--first")
    yield "chance: what fails once and not again is counted and kept apart", same(
        [done.returncode, closing(done), len(inputs(copy, "table")),
         len(list((copy.root / "build/fuzz/unreproduced/table").glob("*")))], [1, 1, 0, 1])
    yield "chance: and listed as such", [] if "did not fail again alone: crash of libfuzzer" in done.stdout else words(done)


def contract_rows(copy):
    copy.plant(BROKEN_CLAUSE)
    done = copy.run("core", LONG, "--first", "--engine", "contract")
    yield "contract: the clause that is false is the finding", found_one(copy, "core", done)
    path = inputs(copy, "core")[0]
    yield "contract: named by function and clause", [] if path.stem.startswith(
        "core-oracle-contract-nxmem-") else [path.stem]


def planted_rows(copy):
    """The engines that run everything, on one fault."""
    build_replay(copy)
    copy.plant(FAULT)
    shown = without_seeds_that_show_it(copy, "table")
    yield "the fault is one that seeds show", same(len(shown) > 1, True)
    yield from libfuzzer_rows(copy, shown)
    found = inputs(copy, "table")[0]
    data = found.read_bytes()
    yield from afl_rows(copy, found.name)
    copy.restore()
    (copy.found("table") / "x.bin").write_bytes(data)
    (copy.found("table") / "x.toml").write_text("a note")
    yield "replay: green once the fault is gone", same(copy.replay("table", copy.found("table")), (0, [], 1))


def ended_rows(copy):
    copy.plant(FAULT)
    yield from end_rows(copy)


GROUPS = {"planted": planted_rows, "ends": ended_rows, "limits": limit_rows, "chance": unreproduced_rows,
          "bounded": bounded_rows, "contract": contract_rows}


def rows(arguments):
    copy = Copy(arguments.copy)
    groups = [arguments.only] if arguments.only else [g for g in GROUPS if g != "contract" or arguments.contracts]
    if arguments.contracts is not None:
        copy.take_contracts(arguments.contracts)
    for group in groups:
        copy.restore()
        yield from GROUPS[group](copy)
    copy.restore()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("copy", type=pathlib.Path)
    parser.add_argument("--contracts", type=pathlib.Path)
    parser.add_argument("--only", choices=GROUPS)
    return tell(rows(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
