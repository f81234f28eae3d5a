#!/usr/bin/env python3
"""Damages the core in every small way that the operators know; each damage must be noticed, or be justified in writing.

Three layers look, the cheapest first, until one notices: the compiled contract on concrete inputs, the proof of the damaged function,
the unit tests. README.md says what a kill means. Last line: mutants: K/M killed, J justified
Exit code: 0 all killed or justified (at most 5 %), 1 findings, 2 usage, 3 could not run.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import os
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import generate  # noqa: E402
import record  # noqa: E402
import report_sources  # noqa: E402
from objects import sift  # noqa: E402
from tree import Tree, freeze  # noqa: E402

STARTED = time.monotonic()

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LAYERS = ("contract", "proof", "unit")
QUICK_MUTANTS = 80
JUSTIFIED_MOST = 0.05
SAID_EVERY = 20.0  # seconds


@dataclass
class Result:
    mutant: generate.Mutant
    status: str = "survived"
    asked: list = field(default_factory=list)
    kills: dict = field(default_factory=dict)
    reason: str = ""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"a fixed sample of {QUICK_MUTANTS}, spread over files and operators")
    parser.add_argument("--only", action="append", metavar="FILE|FUNCTION|ID", help="base name of a file, function, id; patterns")
    parser.add_argument("--list", action="store_true", help="what is generated, with each damage; runs nothing")
    parser.add_argument("--layers", default="first", help="contract,proof,unit: only these; all: each of them for every mutant "
                                                          "(default: until one kills)")
    parser.add_argument("--one-layer", action="store_true", help="the mutants of one_layer.toml: exactly the layer named kills")
    parser.add_argument("--json", metavar="FILE", help="the record (default build/records/mutants.json, for whole runs)")
    parser.add_argument("--resume", action="store_true", help="keep what the record says of these very sources, and ask only about the rest; "
                                                              "survivors are held against today's justified.toml")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--seed", type=int, default=1, help="of the sample and of the contracts' inputs")
    parser.add_argument("--sample", type=int, metavar="N", help="a sample of N instead of all")
    parser.add_argument("--root", default=ROOT, help="project to damage (the alarm tests damage small ones)")
    args = parser.parse_args()
    args.root = os.path.abspath(args.root)
    args.all_layers = args.layers == "all"
    args.layers = LAYERS if args.layers in ("all", "first") else tuple(args.layers.split(","))
    if not set(args.layers) <= set(LAYERS):
        parser.error(f"--layers takes {', '.join(LAYERS)} or all")
    return args


def matches(mutant, patterns):
    names = (mutant.id, mutant.function, mutant.file, os.path.basename(mutant.file), mutant.operator)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in names)


def sample_of(mutants, size, seed):
    """The same ones for the same seed: from each pair of file and operator in turn."""
    groups = collections.defaultdict(list)
    for mutant in mutants:
        groups[mutant.file, mutant.operator].append(mutant)
    for key, group in groups.items():
        random.Random(f"{seed}:{key}").shuffle(group)
    order = list(groups.values())
    random.Random(seed).shuffle(order)
    rounds = [group[i] for i in range(max(map(len, order), default=0)) for group in order if i < len(group)]
    return rounds[:size]


def make_layers(args, root, folder, mutants):
    """Each layer with its control: nothing is damaged before the undamaged core passes."""
    made = []
    for name in args.layers:
        place = os.path.join(folder, name)
        os.makedirs(place)
        say(f"preparing the {name} layer")
        if name == "contract":
            from contract import ContractLayer
            made.append(ContractLayer(root, place, mutants, args.jobs, seed=args.seed))
        elif name == "proof":
            from proof import ProofLayer
            made.append(ProofLayer(root, place, thorough=args.all_layers))
        else:
            from unit import UnitLayer
            made.append(UnitLayer(root, place))
    return made


class Run:
    """Judges mutants, several at a time, and says how far it is."""

    def __init__(self, args, originals, folder, before):
        self.args, self.layers, self.originals, self.folder = args, [], originals, folder
        self.root = os.path.join(folder, "frozen")
        self.place = threading.local()
        self.results, self.started, self.said = list(before), time.monotonic(), time.monotonic()
        self.guard = threading.Lock()

    def judge(self, mutant):
        tree = getattr(self.place, "tree", None)
        if tree is None:
            tree = self.place.tree = Tree(self.root, tempfile.mkdtemp(dir=self.folder, prefix="tree-"), self.originals)
        result = Result(mutant)
        tree.damage(mutant)
        try:
            self.ask(tree, result)
        finally:
            tree.restore(mutant)
        return result

    def ask(self, tree, result):
        for layer in self.layers:
            result.asked.append(layer.name)
            try:
                kill = layer.judge(tree.path, result.mutant)
            except RuntimeError as error:
                # What a layer cannot judge it has not killed; the words stand in the record.
                result.reason += f"{layer.name}: {error}; "
                continue
            if kill is not None:
                result.kills[layer.name] = kill
                result.status = "killed"
                if not self.args.all_layers:
                    return

    def all(self, mutants, keep, layers_for):
        done_before = {result.mutant.id for result in self.results}
        rest = [m for m in mutants if m.id not in done_before]
        self.layers = layers_for(rest) if rest else []
        with concurrent.futures.ThreadPoolExecutor(max_workers=self.args.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(self.judge, m) for m in rest]):
                self.results.append(done.result())
                self.tell(len(mutants), keep)
        order = {mutant.id: i for i, mutant in enumerate(mutants)}
        self.results.sort(key=lambda r: order[r.mutant.id])
        return self.results

    def tell(self, total, keep):
        result = self.results[-1]
        if result.status != "killed":
            say(f"  survives: {result.mutant.id} (line {result.mutant.line}): {result.mutant.before} => "
                f"{generate.shortened(result.mutant.after) or '(nothing)'} {result.reason}")
        if time.monotonic() - self.said < SAID_EVERY and len(self.results) < total:
            return
        self.said = time.monotonic()
        keep(self.results)
        say(f"  {len(self.results)}/{total} judged, {by_layer(self.results)}, {self.said - self.started:.0f} s")


def by_layer(results):
    first = collections.Counter(next(iter(r.kills)) if len(r.kills) == 1 else "several" for r in results if r.kills)
    left = sum(not r.kills for r in results)
    return ", ".join([f"{name} {first[name]}" for name in (*LAYERS, "several") if first[name]] + [f"{left} alive"])


def say(text):
    print(text, flush=True)


def judge_justifications(args, results, generated, entries):
    """Marks justified survivors; a justification that no survivor needs any more is a finding."""
    problems, by_id = [], {m.id: m for m in generated}
    judged = {r.mutant.id: r for r in results}
    for name, entry in entries.items():
        mutant, result = by_id.get(name), judged.get(name)
        if mutant is None or not record.describes(entry, mutant):
            problems.append(f"justified.toml: no such mutant any more: {name}")
        elif result is not None and result.kills:
            problems.append(f"justified.toml: killed, so not to be justified: {name}")
        elif result is not None:
            result.status, result.reason = "justified", entry["reason"]
        elif not (args.only or args.quick or args.sample):
            problems.append(f"justified.toml: not among the mutants that count: {name}")
    return problems


def judge_one_layer(results, entries):
    problems = []
    for result in results:
        wanted, found = entries[result.mutant.id]["layer"], sorted(result.kills)
        say(f"  {result.mutant.id}: noticed by {', '.join(found) or 'none'} ({detail(result)})")
        if found != [wanted]:
            problems.append(f"one_layer.toml: {result.mutant.id}: noticed by {found}, needed {wanted} alone {result.reason}")
    return problems


def detail(result):
    return "; ".join(str(k.get("clause") or k.get("goal") or k.get("test")) for k in result.kills.values()) or "-"


def chosen_mutants(args, generated, one_layer):
    mutants = [m for m in generated if not args.only or matches(m, args.only)]
    if args.one_layer:
        missing = set(one_layer) - {m.id for m in generated}
        if missing:
            raise LookupError(f"one_layer.toml names no mutant: {', '.join(sorted(missing))}")
        mutants = [m for m in mutants if m.id in one_layer]
    elif args.quick or args.sample:
        mutants = sample_of(mutants, args.sample or QUICK_MUTANTS, args.seed)
    if not mutants:
        raise LookupError("no mutant matches")
    return mutants


def record_path(args):
    if args.json or args.only or args.sample or args.layers != LAYERS:
        return args.json
    name = "mutants-one-layer" if args.one_layer else "mutants-quick" if args.quick else "mutants"
    return f"{args.root}/build/records/{name}.json"


def resumed(args, path, mutants):
    """With --resume, what an earlier run has judged: results of those mutants that are the same now, on the same sources."""
    if not args.resume:
        return []
    if not path:
        raise RuntimeError("--resume needs a record: a whole run's, or --json FILE")
    return [Result(**facts) for facts in record.judged_before(path, args.root, args.layers, mutants)]


def show(mutants):
    for m in mutants:
        print(f"{m.id} (line {m.line}): {m.before} => {generate.shortened(m.after) or '(nothing)'}")
    for operator, count in collections.Counter(m.operator for m in mutants).most_common():
        print(f"{count:5} {operator}: {generate.OPERATORS[operator]}")
    print(f"mutants: {len(mutants)} generated")


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    args = parse_arguments()
    generated = generate.all_mutants(args.root)
    justified, problems = record.load_entries(args.root, "justified.toml", "justified", ("id", "before", "after", "reason"))
    one_layer, more = record.load_entries(args.root, "one_layer.toml", "mutant", ("id", "layer", "why"))
    problems += more
    try:
        mutants = chosen_mutants(args, generated, one_layer)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 3
    if args.list:
        show(mutants)
        return 0
    args.all_layers = args.all_layers or args.one_layer

    with tempfile.TemporaryDirectory(prefix="nxmem-mutants-") as folder:
        return judge_all(args, freeze(args.root, os.path.join(folder, "frozen")), folder,
                         (generated, mutants, justified, one_layer), problems)


def judge_all(args, root, folder, lists, problems):
    """From the compiler's sieve to the closing line, on a frozen copy of the project."""
    started, revision = time.monotonic(), record.revision(args.root)
    generated, mutants, justified, one_layer = lists
    originals = {path: read_bytes(f"{root}/{path}") for path in generate.damaged_paths(root)}
    say(f"{len(generated)} mutants generated, {len(mutants)} chosen; asking the compiler which of them differ")
    with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
        mutants, not_counted = sift(root, mutants, pool)
    say("not counted: " + ", ".join(f"{count} {why}" for why, count in not_counted.items()))
    path = record_path(args)
    content = report_sources.content(root)

    def keep(results, complete=False):
        if path:
            record.write(path, revision, results, content=content, seconds=round(time.monotonic() - started), complete=complete,
                         generated=len(generated), not_counted=not_counted, layers=list(args.layers), problems=problems)

    before = resumed(args, path, mutants)
    run = Run(args, originals, folder, before)
    if before:
        say(f"{len(before)} judged before, {len(mutants) - len(before)} to judge")
    results = run.all(mutants, keep, lambda rest: make_layers(args, root, folder, rest))
    if args.one_layer:
        problems += judge_one_layer(results, one_layer)
    else:
        problems += judge_justifications(args, results, generated, justified)
    return finish(args, results, problems, keep)


def finish(args, results, problems, keep):
    killed = sum(r.status == "killed" for r in results)
    excused = sum(r.status == "justified" for r in results)
    for r in results:
        if r.status == "survived":
            problems.append(f"survives, not justified: {r.mutant.id}")
            say(f"\n# {os.path.basename(r.mutant.file)}:{r.mutant.line}\n{record.entry_of(r.mutant)}")
    if excused > JUSTIFIED_MOST * len(results) and not (args.only or args.one_layer):
        problems.append(f"{excused} of {len(results)} justified: more than {JUSTIFIED_MOST:.0%}")
    keep(results, complete=True)
    for problem in problems:
        say(problem)
    for r in results:
        if r.asked == list(LAYERS) and list(r.kills) == ["unit"]:
            say(f"noticed by the unit tests alone: {r.mutant.id}: {r.kills['unit']['test']}")
    say(f"noticed first by: {by_layer(results)}")
    say(f"in {time.monotonic() - STARTED:.0f} s")
    say(f"mutants: {killed}/{len(results)} killed, {excused} justified")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError) as error:
        print(f"mutants: {error}", file=sys.stderr)
        sys.exit(3)
