#!/usr/bin/env python3
"""nxmem run on real plugins, honest and hostile: steps, codes, numbers, and whether the module is gone. Prints TAP."""
import os
import signal

from harness import (HERE, Setting, compile_so, document, equal, fits_a_terminal, main, nxmem, plugin,
                     refused_in_one_line, scratch, write)

U64_MAX = 2**64 - 1

# Arguments after FILE, the step to look at, and what it must hold.
FINE = [
    ("as it is", [], "allocate", {"blocks": 64, "bytes": 4096, "align": 64, "live": 64}),
    ("touches every byte", [], "touch", {"bytes_written_and_read_back": 64 * 4096}),
    ("releases all", [], "release", {"released": 64, "not_released": 0, "bytes_given_back": 64 * 4096}),
    ("released by deallocate", [], "release", {"through": "deallocate"}),
    ("both tallies while blocks are live", [], "gate",
     {"verdict": "ok", "plugin_allocators": 1, "plugin_allocations": 64, "host_allocators": 1, "host_allocations": 64}),
    ("speaks 1.1", [], "negotiated", {"version": "1.1", "mechanisms": 1, "left_out": 0}),
    ("spoken to by a 1.0 host", ["--minor", "0"], "negotiated", {"version": "1.0"}),
    ("a 1.0 host offers what 1.0 knew", ["--minor", "0"], "host",
     {"offers": ["allocator", "virtual-backing", "shared-mapping", "deferred-release"]}),
    ("read directly", ["--direct"], "host", {"reads_plugin_memory": "directly"}),
    ("a thousand blocks", ["--blocks", "1000"], "release", {"released": 1000}),
    ("one byte each", ["--bytes", "1", "--align", "1"], "allocate", {"bytes": 1, "align": 1}),
    ("a page's alignment", ["--align", "4K"], "allocate", {"align": 4096}),
    ("alignment above the size", ["--bytes", "8", "--align", "64K"], "touch", {"bytes_written_and_read_back": 64 * 8}),
    ("sizes with a suffix", ["--blocks", "2", "--bytes", "1M"], "touch", {"bytes_written_and_read_back": 2 << 20}),
    ("named mechanism", ["--mechanism", "minimal"], "allocator", {"mechanism": "minimal", "effective": ["allocator"]}),
    ("named device", ["--device", "HOST:0"], "allocator", {"device": "host:0"}),
    ("plugin's tally is zero", [], "plugin_holds",
     {"plugin_status": "OK", "allocators": 0, "allocations": 0, "queued_releases": 0}),
    ("host's tally is zero", [], "host_holds", {"allocators": 0, "allocations": 0, "unpaid_debts": 0}),
    ("is unmapped", [], "unload", {"result": "ok", "unmapped": True}),
    ("the books are clean", [], "books", {"contract_violations": 0, "unpaid_debts": 0, "forced_leaks": 0}),
]

# One mechanism of the scripted plugin: the step that is refused, its codes and numbers.
HOSTILE = [
    ("short-struct", "allocator", "contract", {"reason": 4, "found": 120, "needed": 128}),
    ("lying-size", "allocator", "unreadable-memory", {"reason": 100}),
    ("missing-slot", "allocator", "contract", {"reason": 5, "field": 48}),
    ("flag-without-slot", "allocator", "contract", {"reason": 12, "field": 120}),
    ("zero-mechanism", "allocator", "contract", {"reason": 6}),
    ("unknown-capability", "allocator", "contract", {"reason": 10, "needed": 31}),
    ("wrong-device", "allocator", "contract", {"reason": 41}),
    ("undeclared-table", "allocator", "contract", {"reason": 11, "field": 80}),
    ("null-table", "allocator", "contract", {"reason": 1}),
    ("wild-table", "allocator", "unreadable-memory", {"reason": 100}),
    ("misaligned-table", "allocator", "contract", {"reason": 2, "found": 4, "needed": 8}),
    ("open-refuses", "allocator", "plugin-error", {"plugin_status": "DEVICE_ERROR"}),
    ("allocate-refuses", "allocate", "plugin-error", {"plugin_status": "OUT_OF_MEMORY"}),
    ("null-address", "allocate", "contract", {"reason": 60}),
    ("misaligned-address", "allocate", "contract", {"reason": 61, "needed": 64}),
    ("wrapping-address", "allocate", "contract", {"reason": 62, "needed": 4096}),
    ("huge-numbers", "allocate", "contract", {"reason": 63, "found": str(U64_MAX), "needed": str(1 << 63)}),
    ("deallocate-refuses", "release", "plugin-error", {"plugin_status": "BUSY"}),
    ("quarantining", "release", "quarantined", {"plugin_status": "OK"}),
    ("failed-release", "release", "plugin-error", {"plugin_status": "BUSY"}),
]

# What a mechanism can do beyond allocating: module, mechanism, step, verdict, facts.
CAPABLE = [
    ("scripted", "lazy", "backing", "ok", {"reserved": 64 << 20, "mapped_at_first": 65536, "granule": 65536,
                                           "mapped_behind_commit": 131072, "unmapped": 131072,
                                           "mapped_behind_decommit": 0}),
    ("scripted", "lazy", "sharing", "ok", {"prefix_bytes": 2 << 20, "physical_bytes": 2 << 20, "outcome": "shared"}),
    ("scripted", "lazy", "deferred", "ok", {"drains": 1, "still_queued": 0}),
    ("scripted_backing", "commit-refuses", "backing", "refused", {"result": "plugin-error"}),
    ("scripted_backing", "ranges-huge", "backing", "refused", {"result": "contract"}),
    ("scripted_backing", "commit-nothing", "backing", "refused", {"result": "unreadable-memory"}),
    ("scripted_capabilities", "backing-without-slots", "backing", "note", {}),
    ("scripted_sharing", "prefix-huge", "sharing", "refused", {"result": "contract"}),
    ("scripted_sharing", "share-fails-second", "sharing", "refused", {"result": "plugin-error"}),
    ("scripted_sharing", "prefix-release-refused", "sharing", "refused", {"result": "plugin-error"}),
    ("scripted_capabilities", "sharing-without-slots", "sharing", "note", {}),
    ("scripted_sticky", "sticky", "deferred", "warning", {"still_queued": 1}),
]

# Mechanisms that are odd but honest.
HONEST = ["eager", "legacy-1-0", "guard-page-table", "poisoned-tail", "ahead"]

# A module whose fault is the whole module's: exit code, the refused step (None: none), its result, whether it is gone.
MODULES = [
    ("bad-tier", 1, "open", "contract", True),
    ("bad-tier-newer", 0, None, None, True),
    ("refuse-negotiation", 1, "open", "negotiation", True),
    ("inverted-range", 1, "open", "negotiation", True),
    ("listed-twice", 1, "open", "contract", True),
    ("too-many", 1, "open", "contract", True),
    ("enumerate-error", 1, "open", "plugin-error", True),
    ("unterminated-name", 1, "open", "unreadable-memory", True),
    ("control-name", 1, "open", "contract", True),
    ("zero-header", 1, "open", "contract", False),
    ("failing-report", 1, "unload", "busy", False),
    ("report-holds", 1, "unload", "busy", False),
    ("missing-export-negotiate", 3, "open", "missing-symbol", True),
    ("missing-export-factories", 3, "open", "missing-symbol", True),
    ("missing-export-unload", 3, "open", "missing-symbol", True),
]


def steps(found, name):
    return [row for row in found["steps"] if row["name"] == name]


def refusals(found):
    return [row for row in found["steps"] if row["verdict"] == "refused"]


def holds(row, facts):
    equal({key: row.get(key) for key in facts}, facts)


def ends_well(found):
    equal((found["result"], found["unmapped"], refusals(found)), ("ok", True, []))
    equal([row for row in found["steps"] if row["verdict"] == "warning"], [])


def is_fine(args, step, facts):
    def case():
        found = document(nxmem("run", "--json", plugin("minimal"), *args), 0)
        ends_well(found)
        holds(steps(found, step)[0], facts)
    return case


def is_honest(mechanism):
    def case():
        found = document(nxmem("run", "--json", plugin("scripted"), "--mechanism", mechanism), 0)
        ends_well(found)
        equal(len(steps(found, "allocator")), 1)
    return case


def is_hostile(mechanism, step, result, numbers):
    def case():
        found = document(nxmem("run", "--json", plugin("scripted"), "--mechanism", mechanism), 1)
        row = refusals(found)[0]
        equal((found["result"], row["name"], row["mechanism"], row["result"]), ("refused", step, mechanism, result))
        holds(row["error"], numbers)
        assert row["error"]["message"]
        equal("reason_text" in row["error"], row["error"].get("reason", 0) != 0)
    return case


def is_capable(library, mechanism, step, verdict, facts):
    def case():
        code = 0 if verdict in ("ok", "note") else 1
        found = document(nxmem("run", "--json", plugin(library), "--mechanism", mechanism), code)
        row = steps(found, step)[0]
        equal(row["verdict"], verdict)
        holds(row, facts)
        equal([row["verdict"] for row in steps(found, "close") if row["verdict"] == "ok"] != [] or
              steps(found, "force_close") != [], True)
    return case


def two_owners_of_one_address():
    found = document(nxmem("run", "--json", plugin("scripted"), "--mechanism", "same-address-twice"), 1)
    equal(refusals(found)[0]["result"], "contract")


def goes_on_after_a_refusal():
    found = document(nxmem("run", "--json", plugin("scripted")), 1)
    named = {row["mechanism"] for row in steps(found, "mechanism")}
    equal({row["mechanism"] for row in steps(found, "allocator")}, named)
    equal({row["mechanism"] for row in steps(found, "close") if row["verdict"] == "ok"} >= set(HONEST), True)


def older_host_drives_newer_plugin():
    found = document(nxmem("run", "--json", plugin("scripted"), "--mechanism", "eager", "--minor", "0"), 0)
    ends_well(found)
    holds(steps(found, "allocator")[0], {"level": 0, "effective": ["allocator"]})


def module(name, code, step, result, gone):
    def case():
        found = document(nxmem("run", "--json", plugin("fault_" + name)), code)
        equal((found["unmapped"], found["result"]), (gone, ["ok", "refused", None, "could-not-run"][code]))
        first = refusals(found)[0] if step else {"name": None, "result": None}
        equal((first["name"], first["result"]), (step, result))
    return case


def resident_module_is_a_finding():
    found = document(nxmem("run", "--json", plugin("fault_resident")), 1)
    equal((found["unmapped"], found["result"]), (False, "findings"))
    holds(steps(found, "unload")[0], {"verdict": "warning", "unmapped": False})


def both_tallies_of_a_refused_unload():
    found = document(nxmem("run", "--json", plugin("scripted"), "--mechanism", "quarantining", "--blocks", "5"), 1)
    holds(steps(found, "release")[0], {"released": 0, "not_released": 5})
    holds(steps(found, "host_holds")[0], {"allocators": 0, "allocations": 5})
    holds(steps(found, "books")[0], {"quarantined": 5, "forced_leaks": 1})
    equal((steps(found, "unload")[0]["result"], found["unmapped"]), ("busy", False))


def what_is_refused_is_handed_back_again():
    done = nxmem("run", "--json", plugin("scripted"), "--mechanism", "deallocate-refuses", "--blocks", "5")
    found = document(done, 1)
    holds(steps(found, "release")[0], {"released": 0, "not_released": 5})
    holds(steps(found, "close")[0]["error"], {"result": "busy", "found": 5})
    equal((steps(found, "force_close")[0]["result"], steps(found, "unload")[0]["result"]), ("ok", "ok"))
    equal(found["unmapped"], True)


def not_listed(args):
    def case():
        found = document(nxmem("run", "--json", plugin("minimal"), *args), 1)
        equal([row["result"] for row in refusals(found)], ["unknown-mechanism"])
        equal((steps(found, "allocator"), found["unmapped"]), ([], True))
        assert refusals(found)[0]["error"]["message"].endswith("listed: minimal (host:0)"), found
    return case


def impossible_size():
    found = document(nxmem("run", "--json", plugin("minimal"), "--bytes", str(U64_MAX), "--align", "64"), 1)
    row = refusals(found)[0]
    holds(row, {"name": "allocate", "result": "invalid-argument", "bytes": str(U64_MAX)})
    equal(row["error"]["reason"], 66)
    equal(found["unmapped"], True)


def impossible_count():
    found = document(nxmem("run", "--json", plugin("minimal"), "--blocks", str(U64_MAX)), 3)
    equal((refusals(found)[0]["result"], found["unmapped"]), ("out-of-memory", True))


def lines_show_every_step():
    found = document(nxmem("run", "--json", plugin("minimal")), 0)
    done = nxmem("run", plugin("minimal"))
    equal(done.returncode, 0)
    lines = fits_a_terminal(done.stdout).splitlines()
    equal([line[2:].split("  ")[0].strip() for line in lines[1:-1]], [row["verdict"] for row in found["steps"]])
    assert "unmapped: yes" in lines[-1]


def hostile_text_fits_a_terminal():
    done = nxmem("run", plugin("scripted"))
    equal(done.returncode, 1)
    fits_a_terminal(done.stdout)


def relative_path():
    folder, name = os.path.split(plugin("minimal"))
    ends_well(document(nxmem("run", "--json", name, cwd=folder), 0))


def symbolic_link():
    path = scratch("link.so")
    os.symlink(plugin("minimal"), path)
    found = document(nxmem("run", "--json", path), 0)
    ends_well(found)
    equal(found["file"], os.path.realpath(plugin("minimal")))


def name_that_is_no_utf8():
    with open(plugin("minimal"), "rb") as file:
        path = write(b"run\xff\x1b\n.so", file.read())
    ends_well(document(nxmem("run", "--json", path), 0))
    fits_a_terminal(nxmem("run", path).stdout)


def fixture(name):
    return os.path.join(HERE, "fixtures", name)


def built_from_minimal(name, source, flags=()):
    return compile_so(name, [Setting.minimal, fixture(source)], ["-I", Setting.include, "-D_GNU_SOURCE", *flags])


def plugin_that_prints():
    path = built_from_minimal("prints", "prints.c")
    done = nxmem("run", "--json", path)
    ends_well(document(done, 0))
    equal(done.stderr.count(b"noise{"), 2)


def memory_that_cannot_be_written():
    renamed = ["-Daligned_alloc=unwritable_alloc", "-Dfree=unwritable_free"]
    path = built_from_minimal("unwritable", "unwritable.c", renamed)
    found = document(nxmem("run", "--json", path), 1)
    row = refusals(found)[0]
    equal((row["name"], row["result"]), ("touch", "unreadable-memory"))
    assert row["error"]["found"] != 0
    equal((steps(found, "release")[0]["released"], found["unmapped"]), (64, True))


def stays(name, flags, code, result):
    """A resident module is seen whatever becomes of its file's name."""
    def case():
        path = built_from_minimal("stays", "stays.c", ["-Daligned_alloc=stays_alloc", *flags])
        moved = scratch(name)
        os.rename(path, moved)
        found = document(nxmem("run", "--json", moved), code)
        equal((found["result"], found["unmapped"]), (result, False))
        assert "No such file" not in found.get("message", ""), "what had been loaded is said to be missing"
    return case


def hosts_own_memory(how):
    def case():
        renamed = ["-Daligned_alloc=elsewhere_alloc", "-Dfree=elsewhere_free", "-DHOW_" + how.upper()]
        path = built_from_minimal("elsewhere_" + how, "elsewhere.c", renamed)
        found = document(nxmem("run", "--json", path, "--blocks", "1"), 1)
        row = refusals(found)[0]
        equal((row["name"], row["result"], len(refusals(found))), ("touch", "contract", 1))
        assert how in row["error"]["message"], row
        equal((steps(found, "release")[0]["released"], found["unmapped"]), (1, True))
    return case


def is_no_plugin(make, unmapped=None):
    def case():
        path = make()
        done = nxmem("run", path)
        refused_in_one_line(done)
        equal(done.stderr.count(os.fsencode(path)), 1)
        found = document(nxmem("run", "--json", path), 3)
        equal((found["result"], found["unmapped"]), ("could-not-run", unmapped))
    return case


def object_file():
    return compile_so("object", [fixture("inspected.c")], kind="-c")


def object_file_is_told_how_to_be_linked():
    done = nxmem("run", object_file())
    equal(done.returncode, 3)
    assert b"link it with -shared" in done.stderr, done.stderr


def library_with_an_undefined_symbol():
    source = write("undefined.c", b"extern int nowhere(void);\nint here(void) { return nowhere(); }\n")
    return compile_so("undefined", [os.fsdecode(source)])


def report_of_too_few():
    path = built_from_minimal("forgets", "forgets.c", ["-DNxmemQueryUnloadReadiness=HonestReport"])
    found = document(nxmem("run", "--json", path), 1)
    equal((found["result"], refusals(found)), ("findings", []))
    holds(steps(found, "gate")[0], {"verdict": "warning", "plugin_allocations": 0, "host_allocations": 64})


def no_mechanism():
    path = built_from_minimal("nothing", "nothing.c", ["-DNxmemCreateAllocatorFactories=RealFactories"])
    found = document(nxmem("run", "--json", path), 1)
    equal((found["result"], found["unmapped"], refusals(found)), ("findings", True, []))
    holds(steps(found, "negotiated")[0], {"verdict": "warning", "mechanisms": 0})


def structured_release_is_named():
    found = document(nxmem("run", "--json", plugin("scripted"), "--mechanism", "eager"), 0)
    holds(steps(found, "release")[0], {"through": "release_allocation", "bytes_given_back": 64 * 4096})
    older = document(nxmem("run", "--json", plugin("scripted"), "--mechanism", "eager", "--minor", "0"), 0)
    holds(steps(older, "release")[0], {"through": "deallocate", "bytes_given_back": 64 * 4096})


def crash(how, signal_number, args, said):
    """The process dies of the plugin's own signal; the last line on stderr says where."""
    def case():
        path = built_from_minimal("crash_" + how, "crash.c", ["-Daligned_alloc=crash_alloc", "-DHOW_" + how.upper()])
        done = nxmem("run", path, *args)
        equal(done.returncode, -signal_number)
        equal(done.stderr.splitlines()[-1], b"nxmem run: the plugin crashed the process during: " + said)
    return case


def one_of_each():
    lines = nxmem("run", plugin("fault_resident")).stdout.decode().splitlines()
    assert "1 note, 1 warning, 0 refused" in lines[-1], lines[-1]


def cut_plugin():
    with open(plugin("minimal"), "rb") as file:
        content = file.read()
    return write("cut.so", content[: 9000])


def fifo():
    path = scratch("fifo")
    if not os.path.exists(path):
        os.mkfifo(path)
    return path


def plain_library():
    return compile_so("plain", ["-x", "c", os.devnull])


def text_file():
    return write("text.so", b"not a plugin\n")


NO_PLUGINS = [
    ("no such file", lambda: scratch("missing.so")),
    ("a directory", lambda: Setting.scratch),
    ("a FIFO", fifo),
    ("the null device", lambda: "/dev/null"),
    ("an empty file", lambda: write("empty.so", b"")),
    ("text", text_file),
    ("a plugin cut off inside its segments", cut_plugin),
    ("an executable", lambda: "/bin/true"),
    ("an object file", object_file),
    ("a library with an undefined symbol", library_with_an_undefined_symbol),
    ("a library without the exports", plain_library, True),
]

CRASHES = [
    ("null", signal.SIGSEGV, [], b"allocate, mechanism minimal"),
    ("null", signal.SIGSEGV, ["--json"], b"allocate, mechanism minimal"),
    ("stack", signal.SIGSEGV, [], b"allocate, mechanism minimal"),
    ("divide", signal.SIGFPE, [], b"allocate, mechanism minimal"),
    ("trap", signal.SIGILL, [], b"allocate, mechanism minimal"),
    ("abort", signal.SIGABRT, [], b"allocate, mechanism minimal"),
    ("load", signal.SIGABRT, [], b"open (load, negotiate, enumerate)"),
]


STAYS = [
    ("under its name", "stays.so", [], 1, "findings"),
    ("with a line break in its name", b"stays\n.so", [], 1, "findings"),
    ("unlinked while it loads", "gone.so", ["-DAWAY=unlink(self)", "-DAT_LOAD"], 3, "could-not-run"),
    ("renamed while it loads", "gone.so", ["-DAWAY=rename(self,away)", "-DAT_LOAD"], 3, "could-not-run"),
    ("unlinked in use", "gone.so", ["-DAWAY=unlink(self)"], 1, "findings"),
    ("hidden from a look at mappings", "hidden.so", ["-DAWAY=hide()"], 1, "findings"),
    ("renamed in use", "gone.so", ["-DAWAY=rename(self,away)"], 1, "findings"),
]


def make_rows():
    rows = [("minimal: " + name, is_fine(*rest)) for name, *rest in FINE]
    rows += [(f"{name}: driven to the end", is_honest(name)) for name in HONEST]
    rows += [(f"{name}: refused", is_hostile(name, *rest)) for name, *rest in HOSTILE]
    rows += [(f"{mechanism}: {step} is {verdict}", is_capable(library, mechanism, step, verdict, facts))
             for library, mechanism, step, verdict, facts in CAPABLE]
    rows += [(f"module {name}", module(name, *rest)) for name, *rest in MODULES]
    rows += [("no plugin: " + name, is_no_plugin(*rest)) for name, *rest in NO_PLUGINS]
    rows += [(f"crash by {how} {' '.join(args)}".strip(), crash(how, number, args, said))
             for how, number, args, said in CRASHES]
    rows += [("resident " + name, stays(*rest)) for name, *rest in STAYS]
    rows += [(f"an address in the host's {how}", hosts_own_memory(how)) for how in ("stack", "library")]
    rows += [("two owners of one address", two_owners_of_one_address),
             ("a refused mechanism does not stop the others", goes_on_after_a_refusal),
             ("an older host drives a newer plugin", older_host_drives_newer_plugin),
             ("a module that stays mapped is a finding", resident_module_is_a_finding),
             ("both tallies of a refused unload", both_tallies_of_a_refused_unload),
             ("what is refused is handed back again", what_is_refused_is_handed_back_again),
             ("a mechanism that is not listed", not_listed(["--mechanism", "nonesuch"])),
             ("a device that is not listed", not_listed(["--device", "disk:7"])),
             ("a size that wraps", impossible_size),
             ("more blocks than handles fit in memory", impossible_count),
             ("an object file is told how to be linked", object_file_is_told_how_to_be_linked),
             ("a report of fewer than were handed out", report_of_too_few),
             ("a plugin without a mechanism is a finding", no_mechanism),
             ("the slot that released is named", structured_release_is_named),
             ("one warning is not several", one_of_each),
             ("lines and JSON show the same steps", lines_show_every_step),
             ("hostile text fits a terminal", hostile_text_fits_a_terminal),
             ("a relative path", relative_path),
             ("a symbolic link", symbolic_link),
             ("a file name that is no UTF-8", name_that_is_no_utf8),
             ("a plugin that prints does not break the JSON", plugin_that_prints),
             ("memory that cannot be written", memory_that_cannot_be_written)]
    return rows


if __name__ == "__main__":
    main(make_rows)
