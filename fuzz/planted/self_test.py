#!/usr/bin/env python3
"""The alarms of the planted matrix, without building anything: TAP."""
import os
import sys
import tempfile
import types

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import apply as faults_of  # noqa: E402
import hunt  # noqa: E402
import matrix  # noqa: E402
import oracles  # noqa: E402
import record as records  # noqa: E402


class Fault(dict):
    name = "fault"


FAULT = Fault(target="table", file="abi/src/x.c", find="if (a) return", put="if (b) return", when="a != b")
SEEN = {"seen": True, "by": "ORACLE x: 1", "alarms": ["ORACLE x: 1"], "seconds": 3.0, "far": "detected", "target": "table", "key": "k"}
UNSEEN = {"seen": False, "by": "", "seconds": None, "far": "reached", "target": "table", "key": "k"}


def record_with(answers, unchanged=None):
    record = records.Record("/nowhere/planted.json", True)
    record.data["faults"]["fault"] = {"layers": answers}
    record.data["unchanged"]["table"] = {"layers": {"libfuzzer": unchanged or {**UNSEEN, "far": "-"}}}
    return record


def code_of(record, layers, budget=60):
    options = types.SimpleNamespace(layers=layers, budget=budget, tap=True)
    stdout, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")
    try:
        return matrix.judge(options, [FAULT], record)
    finally:
        sys.stdout.close()
        sys.stdout = stdout


def all_layers(**changed):
    quick = {"seen": True, "by": "x", "seconds": 0.1, "key": "k"}
    return {"proof": quick, "unit": quick, "contract": quick, "libfuzzer": SEEN, "afl": SEEN, **changed}


def unseen_everywhere():
    return {layer: UNSEEN for layer in matrix.LAYERS}


def plant(fault, text):
    return faults_of.planted(text, fault)


FILE = "/* head */\nint f(int a, int b) {\n  if (a) return 1;\n  const int c = a;\n  return c;\n}\n"


def watched(script, budget):
    with tempfile.TemporaryDirectory() as folder:
        return hunt.watch(["sh", "-c", script], budget, {}, f"{folder}/log", folder, gently=True)


def cases():
    yield "a fault that a fuzzer sees in time is fine", lambda: code_of(record_with({"libfuzzer": SEEN}), ["libfuzzer"]) == 0
    yield "a fault that no fuzzer sees is a finding", lambda: code_of(record_with({"libfuzzer": UNSEEN}), ["libfuzzer"]) == 1
    yield "one that is seen too late is a finding", lambda: code_of(record_with({"libfuzzer": SEEN}), ["libfuzzer"], 2) == 1
    yield "one that only a test sees is a finding for the fuzzers", lambda: code_of(record_with(
        all_layers(contract=UNSEEN, libfuzzer=UNSEEN, afl=UNSEEN)), list(matrix.LAYERS)) == 1
    yield "one that no layer sees is a finding", lambda: code_of(record_with(unseen_everywhere()), list(matrix.LAYERS)) == 1
    yield "all layers see it", lambda: code_of(record_with(all_layers()), list(matrix.LAYERS)) == 0
    yield "an alarm on the unchanged product is a finding", lambda: code_of(record_with({"libfuzzer": SEEN}, SEEN), ["libfuzzer"]) == 1
    yield "a layer that could not be asked is said", lambda: code_of(
        record_with({"libfuzzer": SEEN, "afl": {**UNSEEN, "not_asked": "no build"}}), ["libfuzzer", "afl"]) == 3
    yield "a layer that was not asked yet is said", lambda: code_of(record_with({"libfuzzer": SEEN}), ["libfuzzer", "afl"]) == 3
    yield "an answer that depends on something else is asked anew", lambda: not record_with({"libfuzzer": SEEN}).has(
        "faults", "fault", "libfuzzer", "other") and record_with({"libfuzzer": SEEN}).has("faults", "fault", "libfuzzer", "k")
    yield "the canary stands before the line", lambda: "(void)nxmem_fuzz_canary(a != b); if (b) return 1;" in plant(FAULT, FILE)
    yield "a statement becomes a block", lambda: "{ (void)nxmem_fuzz_canary(1); return 0; }" in plant(
        Fault(find="return c;", put="return 0;", when="1"), FILE)
    yield "or the canary stands where it is told to", lambda: "(void)nxmem_fuzz_canary(1); const int c = b;" in plant(
        Fault(find="const int c = a;", put="const int c = b;", at="const int c", when="1"), FILE)
    yield "provers are given none", lambda: "canary" not in faults_of.planted(FILE, FAULT, canary=False)
    yield "a program that does not end is stopped by its processor time", lambda: watched("while :; do :; done", 0.5)[0] is None
    yield "what its children take counts", lambda: watched("(while :; do :; done) & wait", 0.5)[0] is None
    yield "one that ends says how", lambda: watched("exit 77", 5)[0] == 77
    yield "an oracle's words are known by where they stand", lambda: oracles.words_of("fuzz_fail", ['"show"', '"%u bytes"', "n"]) == "ORACLE show: " \
        and oracles.words_of("life_expect", ["a == b", '"open: device"']) == "ORACLE life: open: device"
    yield "those of the engine's model too", lambda: oracles.words_of("vm_same", ['"granules mapped"', "a", "b"]) == "ORACLE vmm: granules mapped" \
        and oracles.words_of("vm_expect", ["a == b", '"handles"']) == "ORACLE vmm: handles" and any(
            site["where"].startswith("fuzz/vmm/") and site["says"].startswith("ORACLE vmm: ") for site in oracles.sites(matrix.ROOT))
    yield "arguments may have commas and parentheses inside", lambda: oracles.arguments_of('f("a, b", g(1, 2), 3)', 1) == ['"a, b"', "g(1, 2)", "3"]


def main():
    every, failed = list(cases()), 0
    print(f"1..{len(every)}")
    for number, (name, holds) in enumerate(every, 1):
        good = holds()
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
