#!/usr/bin/env python3
"""nxmem conform: its command line, its four forms of output, and honest plugins that pass it whole. Prints TAP."""
import json
import os
import re
import xml.etree.ElementTree

import harness
from harness import (Setting, compile_so, equal, fits_a_terminal, main, nxmem, plugin, refused_in_one_line, scratch,
                     write)

# Whole plugins on a machine that does much else.
harness.LIMIT_SECONDS = 90

LAST_LINE = re.compile(r"^conform: (\d+) rules, (\d+) passed, (\d+) failed, (\d+) not applicable"
                       r"(?:, (\d+) could not run)?$")
RULE_ID = re.compile(r"^NX-[A-Z]{3}-\d{3}$")
FEW = ["--rule", "NX-NEG-001", "--rule", "NX-ALC-001"]

WRONG = [("no file", []),
         ("two files", ["a", "b"]),
         ("unknown option", ["--frobnicate", "a"]),
         ("unknown rule", ["--rule", "NX-NEG-999", "a"]),
         ("rule with a terminal escape", ["--rule", "\x1b[31m", "a"]),
         ("unknown rule to explain", ["--explain", "frob"]),
         ("no time at all", ["--timeout", "0", "a"]),
         ("time below zero", ["--timeout=-1", "a"]),
         ("time that is no number", ["--timeout", "soon", "a"]),
         ("time without end", ["--timeout", "inf", "a"]),
         ("cycles below zero", ["--cycles=-1", "a"]),
         ("cycles that are no number", ["--cycles", "many", "a"])]


def conform(*args, **options):
    return nxmem("conform", *args, **options)


def counts(done):
    """What the last line counts: rules, passed, failed, not applicable, could not run."""
    lines = fits_a_terminal(done.stdout).splitlines()
    found = LAST_LINE.match(lines[-1])
    assert found, f"the last line is {lines[-1]!r}"
    return [int(number or 0) for number in found.groups()]


def wrong(args):
    def case():
        done = conform(*args)
        equal(done.returncode, 2)
        equal(done.stdout, b"")
        fits_a_terminal(done.stderr)
    return case


def sanitized():
    """A sanitizer keeps what was freed, and so grows with every cycle."""
    with open(Setting.nxmem, "rb") as file:
        content = file.read()
    return b"__asan_init" in content or b"__tsan_init" in content


def passes_whole(path, *args):
    def case():
        done = conform(path(), *args, *(["--cycles", "0"] if sanitized() else []))
        assert done.returncode == 0, f"exit {done.returncode}:\n{failures(done)}"
        rules, passed, failed, _, could_not = counts(done)
        equal((rules, failed, could_not), (passed, 0, 0))
        assert passed > 140, f"{passed} passed"
    return case


def failures(done):
    return "\n".join(line for line in done.stdout.decode(errors="replace").splitlines()
                     if line.startswith(("  fail", "  could not run")))


def help_names_every_option():
    done = conform("--help")
    equal(done.returncode, 0)
    for word in ("--mechanism", "--rule", "--timeout", "--cycles", "--json", "--junit", "--sarif", "--list",
                 "--explain", "Exit codes"):
        assert word.encode() in done.stdout, f"{word} is not in the help"
    assert b"conform FILE" in nxmem("--help").stdout


# ---- Rules ------------------------------------------------------------------------------------------------------

def listed():
    done = conform("--list")
    equal(done.returncode, 0)
    lines = fits_a_terminal(done.stdout).splitlines()
    return lines, [line.split()[0] for line in lines if line.startswith("  ")]


def list_names_each_once():
    lines, ids = listed()
    assert all(RULE_ID.match(name) for name in ids), f"{[n for n in ids if not RULE_ID.match(n)]} are no ids"
    equal(len(ids), len(set(ids)))
    families = len([line for line in lines if not line.startswith("  ")]) - 1
    equal(lines[-1], f"conform: {len(ids)} rules in {families} families")


def explain_knows_each():
    _, ids = listed()
    for name in ids:
        done = conform("--explain", name)
        equal(done.returncode, 0)
        lines = fits_a_terminal(done.stdout).splitlines()
        assert lines[0].startswith(name + ": "), lines[0]
        rests = lines[-1].split()[-1]
        assert rests == "nothing" or rests in ids, f"{name} rests on {rests}, which is no rule"


def documented():
    """Each family of rules is in the page for authors."""
    page = os.path.join(os.path.dirname(os.path.dirname(Setting.minimal)), "CONFORMANCE.md")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    prefixes = {name[:6] for name in listed()[1]}
    missing = [prefix for prefix in sorted(prefixes) if f"`{prefix}`" not in text]
    equal(missing, [])


def rule_brings_what_it_rests_on():
    done = conform(plugin("minimal"), "--rule", "NX-ALC-001", "--json", scratch("one.json"))
    equal(done.returncode, 0)
    with open(scratch("one.json"), encoding="utf-8") as file:
        ids = {row["rule"] for row in json.load(file)["verdicts"]}
    assert {"NX-ALC-001", "NX-TAB-001", "NX-ENU-001", "NX-NEG-001", "NX-MOD-001"} <= ids, ids
    assert "NX-DEA-001" not in ids, ids


def mechanism_alone():
    done = conform(plugin("scripted"), "--mechanism", "eager", "--json", scratch("eager.json"), *FEW)
    equal(done.returncode, 0)
    with open(scratch("eager.json"), encoding="utf-8") as file:
        rows = json.load(file)["verdicts"]
    equal({row.get("mechanism") for row in rows}, {None, "eager"})


def no_such_mechanism():
    done = conform(plugin("minimal"), "--mechanism", "nope\x1b[31m")
    equal(done.returncode, 3)
    fits_a_terminal(done.stderr)


# ---- Output ------------------------------------------------------------------------------------------------------

ODD_NAME = "a<b>&\"'c \u00e4 ]]>"


def oddly_named():
    """minimal, under a name that XML, JSON and a terminal each take amiss in another way."""
    with open(Setting.minimal, encoding="utf-8") as file:
        source = file.read()
    quoted = ODD_NAME.replace('"', '\\"')
    source = source.replace('"minimal")', f'"{quoted}")').replace("calloc(1u, sizeof *a)", "NULL")
    path = write("odd.c", source.encode())
    return compile_so("odd", [os.fsdecode(path)], ["-I", Setting.include])


def forms():
    """One run in every form. The plugin never opens, so that there are failures and what could not run."""
    names = {form: scratch("out." + form) for form in ("json", "junit", "sarif")}
    done = conform(oddly_named(), *(word for form, path in names.items() for word in ("--" + form, path)))
    equal(done.returncode, 1)
    return done, names


def json_agrees():
    done, names = forms()
    rules, passed, failed, absent, could_not = counts(done)
    with open(names["json"], encoding="utf-8") as file:
        found = json.load(file)
    equal((found["exit_code"], found["result"], found["passed"], found["failed"], found["not_applicable"],
           found["could_not_run"]), (1, "findings", passed, failed, absent, could_not))
    assert failed and could_not, f"{failed} failed, {could_not} could not run"
    equal(len(found["verdicts"]), rules + absent + could_not)
    equal({row.get("mechanism") for row in found["verdicts"]}, {None, ODD_NAME})
    assert all(row["evidence"] for row in found["verdicts"] if row["verdict"] != "pass")


def junit_agrees():
    done, names = forms()
    rules, _, failed, absent, could_not = counts(done)
    try:
        suite = xml.etree.ElementTree.parse(names["junit"]).getroot().find("testsuite")
    except xml.etree.ElementTree.ParseError as error:
        raise ValueError(f"not well-formed: {error}") from error
    equal([int(suite.get(key)) for key in ("tests", "failures", "skipped", "errors")],
          [rules + absent + could_not, failed, absent, could_not])
    cases = suite.findall("testcase")
    equal(len(cases), rules + absent + could_not)
    equal(len(suite.findall("testcase/failure")), failed)
    equal(len(suite.findall("testcase/skipped")), absent)
    equal(len(suite.findall("testcase/error")), could_not)
    equal({case.get("classname") for case in cases}, {"module", ODD_NAME + " (host:0)"})


def sarif_agrees():
    done, names = forms()
    rules, _, failed, absent, could_not = counts(done)
    with open(names["sarif"], encoding="utf-8") as file:
        found = json.load(file)
    equal(found["version"], "2.1.0")
    run, = found["runs"]
    described = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    equal(described, set(listed()[1]))
    kinds = [result["kind"] for result in run["results"]]
    equal([kinds.count(kind) for kind in ("fail", "notApplicable", "open")], [failed, absent, could_not])
    equal(len(kinds), rules + absent + could_not)
    for result in run["results"]:
        assert result["ruleId"] in described
        assert (result["level"] == "none") == (result["kind"] != "fail"), result
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.startswith("file:///") and " " not in uri, uri


def unwritable(option):
    def case():
        done = conform(plugin("minimal"), option, "/dev/full", *FEW)
        equal(done.returncode, 3)
        assert b"/dev/full" in done.stderr
    return case


def no_such_folder(option):
    def case():
        equal(conform(plugin("minimal"), option, scratch("nowhere/out"), *FEW).returncode, 3)
    return case


def standard_output_full():
    with open("/dev/full", "wb") as full:
        equal(conform(plugin("minimal"), *FEW, stdout=full).returncode, 3)


# ---- Files that are no plugin -----------------------------------------------------------------------------------

def missing_file():
    refused_in_one_line(conform(scratch("nothing.so")))


def folder():
    refused_in_one_line(conform(Setting.scratch))


def fifo():
    path = scratch("fifo")
    os.mkfifo(path)
    refused_in_one_line(conform(path))


def text_file():
    done = conform(write("text.so", b"not a plugin\n"))
    equal(done.returncode, 1)
    equal(counts(done)[2], 1)
    assert b"fail            NX-MOD-001" in done.stdout


# ---- Memory that no CPU may touch --------------------------------------------------------------------------------

def refusal_in_its_own_words():
    done = conform(plugin("scripted"), "--mechanism", "open-refuses", "--rule", "NX-TAB-001")
    assert b"found DEVICE_ERROR (lost " in done.stdout, done.stdout
    assert b"\x1b" not in done.stdout, done.stdout


def device_plugin():
    """minimal on tier device: its blocks are address ranges that fault when they are touched."""
    with open(Setting.minimal, encoding="utf-8") as file:
        source = file.read()
    source = source.replace("NXMEM_TIER_HOST", "NXMEM_TIER_DEVICE")
    take = ("  uint8_t *base = mmap(NULL, bytes + align + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
            "  if (base == MAP_FAILED) return NULL;\n"
            "  return base + (align - (uintptr_t)base % align) % align;\n")
    source = source.replace("  return aligned_alloc(align, bytes);\n", take)
    source = source.replace("  free(pointer);\n#endif", "  (void)pointer;\n#endif")
    source = "#define _GNU_SOURCE\n#include <sys/mman.h>\n" + source
    path = write("device.c", source.encode())
    return compile_so("device", [os.fsdecode(path)], ["-I", Setting.include])


def rows():
    yield from ((f"wrong: {name}", wrong(args)) for name, args in WRONG)
    yield "help", help_names_every_option
    yield "minimal passes whole", passes_whole(lambda: plugin("minimal"))
    yield "lazy passes whole", passes_whole(lambda: plugin("scripted"), "--mechanism", "lazy")
    yield "eager passes whole", passes_whole(lambda: plugin("scripted"), "--mechanism", "eager")
    yield "memory of a device is never touched", passes_whole(device_plugin, "--cycles", "0")
    yield "--list names each rule once", list_names_each_once
    yield "--explain knows each rule", explain_knows_each
    yield "the page for authors names each family", documented
    yield "a rule alone brings what it rests on", rule_brings_what_it_rests_on
    yield "a mechanism alone", mechanism_alone
    yield "no such mechanism", no_such_mechanism
    yield "JSON agrees with the lines", json_agrees
    yield "JUnit agrees with the lines", junit_agrees
    yield "SARIF agrees with the lines", sarif_agrees
    yield from ((f"{option} that cannot be written", unwritable(option)) for option in ("--json", "--junit", "--sarif"))
    yield from ((f"{option} in no folder", no_such_folder(option)) for option in ("--json", "--junit", "--sarif"))
    yield "standard output that is full", standard_output_full
    yield "missing file", missing_file
    yield "folder", folder
    yield "FIFO", fifo
    yield "text file", text_file
    yield "a refusal in the plugin's own words, made harmless", refusal_in_its_own_words


if __name__ == "__main__":
    main(lambda: list(rows()))
