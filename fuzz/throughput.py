#!/usr/bin/env python3
"""How fast is each fuzz target, as a share of one that does nothing?

Both run under libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, in turns, a slice each, from the target's
seeds; what counts is processor time for an input, so that other work on the machine does not. With --profile the share
of each layer, by samples of `perf`. The core with its contracts compiled in, `core (contract)`, is measured by itself.

Last line: "throughput: table P %, ..." or what missed its bar. Exit code: 0 fine, 1 a bar was missed, 2 usage, 3 could
not run.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONTRACT = "core (contract)"
RATES = {CONTRACT: 20000}  # inputs in a second of processor time
SLICE = 100_000
BARS = {"table": 15.0, "negotiate": 15.0, "status": 15.0, "lifecycle": 2.0}  # per cent
OPTIONS = ["-entropic=0", "-print_funcs=0"]  # these, and the most bytes of an input, as campaigns give them
MOST = {"lifecycle": 400, "deferred": 400, "load": 400, "table": 340, "status": 340}
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
    launch([str(binary), f"-max_total_time={seconds}", f"-max_len={MOST.get(target, 1040)}", *OPTIONS, str(corpus), *seeds],
           folder)
    listed = [p for folder_ in (corpus, *map(pathlib.Path, seeds)) for p in sorted(folder_.iterdir()) if p.stat().st_size]
    (folder / "inputs").write_text(",".join(map(str, listed)))
    return folder / "inputs"


def launch(command, folder):
    """Returns inputs and processor seconds."""
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:quarantine_size_mb=16:malloc_context_size=2")
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([*command, f"-artifact_prefix={folder}/"], stdout=log, stderr=log, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = (folder / "log").read_text(errors="replace")
    done = re.search(r"Done (\d+) runs", text)
    if process.returncode != 0 or done is None:
        sys.exit(f"throughput: {' '.join(command)} ended with {process.returncode}:\n" + text[-2000:])
    return int(done[1]), usage.ru_utime + usage.ru_stime


def run(binary, target, inputs, folder, arguments, seed, wrap=()):
    """One slice, without its beginning: what the engine does to read its inputs. Nothing is written to the disk."""
    command = [str(binary), f"-seed={seed}", *OPTIONS, f"-max_len={MOST.get(target, 1040)}", *arguments.option,
               f"-seed_inputs=@{inputs}"]
    first_count, first_seconds = launch([*command, "-runs=1"], folder)
    count, seconds = launch([*wrap, *command, f"-max_total_time={arguments.seconds}"], folder)
    return count - first_count, seconds - first_seconds


def share(binaries, target, arguments, folder):
    totals = {"empty": [0, 0.0], target: [0, 0.0]}
    inputs = prepare(binaries / f"fuzz_{target}", target, folder, arguments.warm)
    for turn in range(arguments.rounds):
        for name in totals:
            count, seconds = run(binaries / f"fuzz_{name}", target, inputs, folder, arguments, turn + 1)
            totals[name][0] += count
            totals[name][1] += seconds
            print(f"  {name}: {count / seconds:,.0f} inputs in a second of processor time", file=sys.stderr)
    rates = {name: count / seconds for name, (count, seconds) in totals.items()}
    return rates[target], rates["empty"]


def contract(arguments, folder):
    """Inputs in a second of processor time of the core with its contracts compiled in. A slice is so many inputs, not so
    many seconds: on a busy machine those would go by with reading the corpus."""
    count, seconds = 0, 0.0
    inputs = prepare(arguments.contract, "core", folder, arguments.warm)
    slices = argparse.Namespace(**{**vars(arguments), "seconds": 3600, "option": [*arguments.option, f"-runs={SLICE}"]})
    for turn in range(arguments.rounds):
        more, longer = run(arguments.contract, "core", inputs, folder, slices, turn + 1)
        count, seconds = count + more, seconds + longer
    return count / seconds


def layer_of(symbol):
    for name, pattern in LAYERS:
        if re.search(pattern, symbol):
            return name
    return "other"


def profile(binaries, target, arguments, folder):
    data = folder / "perf.data"
    run(binaries / f"fuzz_{target}", target, folder / "inputs", folder, arguments, 1,
        ["perf", "record", "-q", "-o", str(data)])
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=[*BARS, *RATES], help="default: those that have a bar")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/libfuzzer", help="a libFuzzer build folder")
    parser.add_argument("--contract", type=pathlib.Path, default=ROOT / "build/contract/contract_fuzz",
                        help="as fuzz/contract/build.sh --fuzzer builds it")
    parser.add_argument("--seconds", type=int, default=5, help="of a slice")
    parser.add_argument("--warm", type=int, default=20, help="seconds of a campaign before them, for a corpus")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--option", action="append", default=[], help="of libFuzzer, for both")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--top", type=int, default=15, help="lines of a profile")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    binaries = arguments.build / "bin"
    if CONTRACT in arguments.targets and not arguments.contract.exists():
        print(f"throughput: no {arguments.contract}: fuzz/contract/build.sh --root . --out build/contract --fuzzer",
              file=sys.stderr)
        return 3
    shares = [t for t in arguments.targets if t not in RATES]
    missing = [t for t in (*shares, *(["empty"] if shares else [])) if not (binaries / f"fuzz_{t}").exists()]
    if missing:
        print(f"throughput: {binaries} lacks fuzz_{missing[0]}: cmake --preset libfuzzer && cmake --build build/libfuzzer",
              file=sys.stderr)
        return 3
    rows, misses = {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for target in arguments.targets:
            if target in RATES:
                rate = contract(arguments, folder)
                rows[target] = {"inputs_per_cpu_second": rate}
                print(f"{target}: {rate:,.0f} inputs in a second of processor time", flush=True)
                if rate < RATES[target]:
                    misses.append(f"{target} {rate:,.0f}/s of {RATES[target]:,}/s")
                continue
            rate, empty = share(binaries, target, arguments, folder)
            percent = 100 * rate / empty
            rows[target] = {"inputs_per_cpu_second": rate, "empty": empty, "percent": percent}
            print(f"{target}: {rate:,.0f} inputs in a second of processor time, empty {empty:,.0f}: {percent:.2f} %",
                  flush=True)
            if percent < BARS.get(target, 0):
                misses.append(f"{target} {percent:.2f} % of {BARS[target]} %")
            if arguments.profile:
                rows[target]["layers"] = profile(binaries, target, arguments, folder)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    print("throughput: " + ("missed: " + ", ".join(misses) if misses else
                            ", ".join(f"{t} {row['percent']:.2f} %" if "percent" in row else
                                      f"{t} {row['inputs_per_cpu_second']:,.0f}/s" for t, row in rows.items())))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
