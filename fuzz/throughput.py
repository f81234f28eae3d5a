#!/usr/bin/env python3
"""How fast is each fuzz target, as a share of one that does nothing?

Both run under libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, in turns, from the same corpus; what counts
is processor time for an input, so that other work on the machine counts as little as it can, and of several turns the
median. With --profile the share of each layer, by samples of `perf`. The core with its contracts compiled in,
`core (contract)`, is measured by itself. What is measured is built first, unless --build or --contract says where it is.

Last line: "throughput: table P %, ..." or what missed its bar. Exit code: 0 fine, 1 a bar was missed, 2 usage, 3 could
not build or run; the input at which a target failed is kept in build/fuzz/throughput.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from campaign.places import ROOT, Places, most_bytes
from campaign.places import targets as known_targets
from campaign.processes import CouldNotRun, Interrupted, Processes
from campaign.programs import Programs

BUILD, BUILD_CONTRACT = ROOT / "build/libfuzzer", ROOT / "build/contract/contract_fuzz"
CONTRACT = "core (contract)"
RATES = {CONTRACT: 20000}  # inputs in a second of processor time
BARS = {"table": 15.0, "negotiate": 15.0, "status": 15.0, "lifecycle": 2.0}  # per cent
SHOWN = ("vmm",)  # without one
OPTIONS = ["-entropic=0", "-reduce_inputs=0", "-print_funcs=0"]  # as campaigns give them
LAYERS = (  # the first that fits the symbol or its library
    ("engine", r"^fuzzer::|^fuzz_mutate|^fuzz_cross|sanitizer_cov|^LLVMFuzzer"),
    ("sanitizer", r"asan|ubsan|^__sanitizer|sanitizer::|lsan|interceptor"),
    ("oracle and model", r"^ref_|^life_|^fuzz_|^check_|^run_|^expect"),
    ("host and core", r"^nx_|^nxmem_"),
)


def prepare(binary, target, folder, seconds):
    """A corpus as a campaign has it after a while, so that a slice is no beginning. Returns the list of its inputs."""
    corpus = folder / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir()
    seeds = [str(p) for p in (ROOT / "fuzz/seeds" / target, ROOT / "fuzz/corpus" / target) if p.is_dir()]
    launch([str(binary), f"-max_total_time={seconds}", f"-max_len={most_bytes(target)}", *OPTIONS, str(corpus), *seeds],
           folder)
    listed = [p for folder_ in (corpus, *map(pathlib.Path, seeds)) for p in sorted(folder_.iterdir()) if p.stat().st_size]
    (folder / "inputs").write_text(",".join(map(str, listed)))
    return folder / "inputs"


def launch(command, folder):
    """Returns inputs and processor seconds. How a target keeps what is freed, mains/libfuzzer_main.c says."""
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([*command, f"-artifact_prefix={folder}/"], stdout=log, stderr=log, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = (folder / "log").read_text(errors="replace")
    done = re.search(r"Done (\d+) runs", text)
    if process.returncode != 0 or done is None:
        raise CouldNotRun(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{text[-2000:]}")
    return int(done[1]), usage.ru_utime + usage.ru_stime


def command_of(binary, target, inputs, arguments, seed):
    """Nothing is written to the disk."""
    return [str(binary), f"-seed={seed}", *OPTIONS, f"-max_len={most_bytes(target)}", *arguments.option,
            f"-seed_inputs=@{inputs}"]


def run(command, folder, inputs):
    """Seconds of processor time for one of so many inputs; what the engine does before the first of them is taken off."""
    first_count, first_seconds = launch([*command, "-runs=1"], folder)
    count, seconds = launch([*command, f"-runs={first_count + inputs}"], folder)
    return (seconds - first_seconds) / (count - first_count)


def some_inputs(command, folder, seconds):
    """How many take that long, roughly."""
    count, spent = 2000, 0.0
    while spent < 0.2 * seconds:
        count *= 4
        spent = count * max(run(command, folder, count), 1e-7)
    return int(count * seconds / spent)


def share(binaries, target, arguments, folder):
    inputs = prepare(binaries / f"fuzz_{target}", target, folder, arguments.warm)
    commands = {name: command_of(binaries / f"fuzz_{name}", target, inputs, arguments, 1) for name in ("empty", target)}
    many = {name: some_inputs(command, folder, arguments.seconds) for name, command in commands.items()}
    spent = {name: [] for name in commands}
    for turn in range(arguments.rounds):
        for name in commands:
            command = command_of(binaries / f"fuzz_{name}", target, inputs, arguments, turn + 1)
            spent[name].append(run(command, folder, many[name]))
        print(f"  turn {turn + 1} of {arguments.rounds}: {target} {1e6 * spent[target][-1]:.2f} us, "
              f"empty {1e6 * spent['empty'][-1]:.2f} us", file=sys.stderr, flush=True)
    percent = statistics.median(100 * e / t for e, t in zip(spent["empty"], spent[target]))
    return {"inputs_per_cpu_second": 1 / statistics.median(spent[target]),
            "empty": 1 / statistics.median(spent["empty"]), "percent": percent}


def rate_with_contracts(arguments, folder):
    """Inputs in a second of processor time of the core with its contracts compiled in."""
    inputs = prepare(arguments.contract, "core", folder, arguments.warm)
    command = command_of(arguments.contract, "core", inputs, arguments, 1)
    many = some_inputs(command, folder, arguments.seconds)
    return 1 / statistics.median(run(command_of(arguments.contract, "core", inputs, arguments, turn + 1), folder, many)
                                 for turn in range(arguments.rounds))


def layer_of(symbol):
    for name, pattern in LAYERS:
        if re.search(pattern, symbol):
            return name
    return "other"


def profile(binaries, target, arguments, folder):
    data = folder / "perf.data"
    command = command_of(binaries / f"fuzz_{target}", target, folder / "inputs", arguments, 1)
    launch(["perf", "record", "-q", "-o", str(data), *command, f"-max_total_time={3 * arguments.seconds}"], folder)
    report = subprocess.run(["perf", "report", "-i", str(data), "--stdio", "--no-children", "-g", "none", "-F",
                             "overhead,dso,symbol"], capture_output=True, text=True, check=True).stdout
    layers, top = collections.Counter(), []
    for line in report.splitlines():
        found = re.match(r"\s*([\d.]+)%\s+(\S+)\s+\[(.)\]\s+(\S+)", line)
        if found is None:
            continue
        percent, dso, mode, symbol = float(found[1]), found[2], found[3], found[4]
        layer = "kernel" if mode == "k" else layer_of(symbol)
        layers[layer] += percent
        top.append((percent, layer, symbol))
    print(f"  {target}: " + ", ".join(f"{name} {percent:.1f} %" for name, percent in layers.most_common()))
    for percent, layer, symbol in sorted(top, reverse=True)[:arguments.top]:
        print(f"    {percent:5.1f} %  {layer:16}  {symbol}")
    return dict(layers)


def build(targets):
    """As campaigns do."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    programs = Programs(Places(ROOT / "build"), Processes(), lambda words: print(words, file=sys.stderr, flush=True))
    try:
        programs.require("contract" if CONTRACT in targets else "libfuzzer")
        if CONTRACT in targets:
            programs.contract()
        programs.together("libfuzzer", needed(targets))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def needed(targets):
    shares = [target for target in targets if target not in RATES]
    return [*shares, *(["empty"] if shares else [])]


def check(arguments):
    """All that is missing, before anything is measured."""
    if arguments.profile and shutil.which("perf") is None:
        raise CouldNotRun("perf is not installed (Debian: linux-perf)")
    if arguments.build == BUILD and arguments.contract == BUILD_CONTRACT:
        build(arguments.targets)
    if CONTRACT in arguments.targets and not arguments.contract.exists():
        raise CouldNotRun(f"no {arguments.contract}: fuzz/contract/build.sh --root . --out build/contract --fuzzer")
    programs = [f"fuzz_{target}" for target in needed(arguments.targets)]
    missing = [program for program in programs if not (arguments.build / "bin" / program).exists()]
    if missing:
        raise CouldNotRun(f"{arguments.build / 'bin'} lacks {', '.join(missing)}: cmake --preset libfuzzer && "
                          f"cmake --build build/libfuzzer --target {' '.join(missing)}")


def measure(target, arguments, folder):
    """Returns the row of a target, and what it misses."""
    if target in RATES:
        rate = rate_with_contracts(arguments, folder)
        print(f"{target}: {rate:,.0f} inputs in a second of processor time", flush=True)
        return {"inputs_per_cpu_second": rate}, (
            [f"{target} {rate:,.0f}/s of {RATES[target]:,}/s"] if rate < RATES[target] else [])
    row = share(arguments.build / "bin", target, arguments, folder)
    percent = row["percent"]
    print(f"{target}: {row['inputs_per_cpu_second']:,.0f} inputs in a second of processor time, empty "
          f"{row['empty']:,.0f}: {percent:.2f} %", flush=True)
    if arguments.profile:
        row["layers"] = profile(arguments.build / "bin", target, arguments, folder)
    return row, [f"{target} {percent:.2f} % of {BARS[target]} %"] if percent < BARS.get(target, 0) else []


def keep(target, arguments, folder):
    """The inputs at which a target failed while it was measured."""
    kept = arguments.build.parent / "fuzz/throughput"
    for path in [path for kind in ("crash", "timeout", "oom", "leak") for path in sorted(folder.glob(f"{kind}-*"))]:
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, kept / f"{target.split()[0]}-{path.name}")
        print(f"throughput: the input is kept: {kept / f'{target.split()[0]}-{path.name}'}", file=sys.stderr)


def measure_all(arguments):
    rows, misses = {}, []
    with tempfile.TemporaryDirectory() as name:
        for target in arguments.targets:
            try:
                rows[target], missed = measure(target, arguments, pathlib.Path(name))
            except CouldNotRun:
                keep(target, arguments, pathlib.Path(name))
                raise
            misses += missed
    return rows, misses


def parser():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("targets", nargs="*", help=f"default: those that have a bar, and {', '.join(SHOWN)}")
    made.add_argument("--contract", type=pathlib.Path, default=BUILD_CONTRACT,
                        help="as fuzz/contract/build.sh --fuzzer builds it")
    made.add_argument("--build", type=pathlib.Path, default=BUILD, help="a libFuzzer build folder")
    made.add_argument("--seconds", type=int, default=2, help="of a turn, of processor time")
    made.add_argument("--warm", type=int, default=20, help="seconds of a campaign before them, for a corpus")
    made.add_argument("--rounds", type=int, default=5, help="turns (default 5)")
    made.add_argument("--option", action="append", default=[], help="of libFuzzer, for both")
    made.add_argument("--profile", action="store_true")
    made.add_argument("--top", type=int, default=15, help="lines of a profile")
    made.add_argument("--json", type=pathlib.Path)
    return made


def main():
    arguments = parser().parse_args()
    unknown = [t for t in arguments.targets if t not in RATES and t not in known_targets()]
    if unknown:
        parser().error(f"no target '{unknown[0]}'; there are: {', '.join([*known_targets(), *RATES])}")
    arguments.targets = arguments.targets or [*BARS, *RATES, *SHOWN]
    try:
        check(arguments)
        rows, misses = measure_all(arguments)
    except (CouldNotRun, Interrupted) as problem:
        print(f"throughput: {str(problem) or 'interrupted'}", file=sys.stderr)
        return 3
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    if misses:
        print("throughput: missed: " + ", ".join(misses))
    else:
        print("throughput: " + ", ".join(f"{t} {row['percent']:.2f} %" if "percent" in row else
                                         f"{t} {row['inputs_per_cpu_second']:,.0f}/s" for t, row in rows.items()))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
