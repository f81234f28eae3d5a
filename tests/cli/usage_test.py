#!/usr/bin/env python3
"""The command line itself: help, version, wrong words, output that cannot be written. Prints TAP."""
import os
import subprocess

from harness import Setting, equal, fits_a_terminal, main, nxmem, plugin, write

HELPS = [("help", ["--help"], ["inspect", "run", "Exit codes"]),
         ("help of inspect", ["inspect", "--help"], ["--json[=FILE]", "-j", "Exit codes"]),
         ("help of status", ["status", "--help"], ["--json[=FILE]", "-j", "plugins", "authorities", "limits", "mechanisms", "steps", "Exit codes"]),
         ("help of conform", ["conform", "--help"], ["--mechanism", "--rule", "--timeout", "--cycles", "--json", "--junit", "--sarif", "--list", "--explain", "Exit codes"]),
         ("help of audit", ["audit", "--help"], ["--static", "--against", "--json", "--sarif", "--html", "--timeout", "--cycles", "--list", "--explain", "Exit codes"]),
         ("help of run", ["run", "--help"],
          ["--mechanism", "--device", "--blocks", "--bytes", "--align", "--minor", "--direct", "--json", "--reserve", "--policy", "not pinned",
           "Exit codes"])]

WRONG = [("no subcommand", []),
         ("unknown subcommand", ["frobnicate", "x"]),
         ("subcommand with a terminal escape", ["\x1b[31m"]),
         ("unknown option", ["--frobnicate"]),
         ("inspect without a file", ["inspect"]),
         ("inspect with two files", ["inspect", "a", "b"]),
         ("inspect with an unknown option", ["inspect", "--blocks", "3", "a"]),
         ("inspect with a document without a name", ["inspect", "--json=", "a"]),
         ("status without a file", ["status"]),
         ("status with two files", ["status", "a", "b"]),
         ("status with an unknown option", ["status", "--blocks", "3", "a"]),
         ("status with a document without a name", ["status", "--json=", "a"]),
         ("audit without a file", ["audit"]),
         ("audit with an unknown option", ["audit", "--blocks", "3", "a"]),
         ("audit with an unknown rule", ["audit", "--explain", "NXA-000"]),
         ("run without a file", ["run"]),
         ("run with two files", ["run", "a", "b"]),
         ("run with an unknown option", ["run", "--frobnicate", "a"]),
         ("blocks that are no number", ["run", "--blocks", "many", "a"]),
         ("blocks below zero", ["run", "--blocks=-1", "a"]),
         ("blocks beyond 2^64", ["run", "--blocks", "18446744073709551616", "a"]),
         ("blocks with a suffix", ["run", "--blocks", "1K", "a"]),
         ("blocks without their number", ["run", "a", "--blocks"]),
         ("no blocks", ["run", "--blocks", "0", "a"]),
         ("no bytes", ["run", "--bytes", "0", "a"]),
         ("bytes with an unknown suffix", ["run", "--bytes", "1T", "a"]),
         ("bytes that overflow by their suffix", ["run", "--bytes", "18446744073709551615K", "a"]),
         ("a reservation that is no power of two", ["run", "--reserve", "96M", "a"]),
         ("a reservation below the least", ["run", "--reserve", "32M", "a"]),
         ("a reservation with a terminal escape", ["run", "--reserve", "\x1b[31m", "a"]),
         ("a policy without a name", ["run", "--policy=", "a"]),
         ("a policy option without its file", ["run", "a", "--policy"]),
         ("a second file behind a policy", ["run", "--policy", "p", "a", "b"]),
         ("a document without a name", ["run", "--json=", "a"]),
         ("alignment of 0", ["run", "--align", "0", "a"]),
         ("alignment that is no power of two", ["run", "--align", "48", "a"]),
         ("minor beyond this host", ["run", "--minor", "2", "a"]),
         ("device without an index", ["run", "--device", "host", "a"]),
         ("device of an unknown tier", ["run", "--device", "cloud:0", "a"]),
         ("device index beyond 2^32", ["run", "--device", "host:4294967296", "a"]),
         ("bytes with a terminal escape", ["run", "--bytes", "\x1b[31m", "a"]),
         ("alignment with a terminal escape", ["run", "--align", "\x1b[31m", "a"]),
         ("blocks with a terminal escape", ["run", "--blocks", "\x1b[31m", "a"]),
         ("minor with a terminal escape", ["run", "--minor", "\x1b[31m", "a"]),
         ("device with a terminal escape", ["run", "--device", "\x1b[31m", "a"]),
         ("bytes that are no UTF-8", ["run", "--bytes", b"\xff", "a"]),
         ("unknown option with a terminal escape", ["--frob\x1b[31m"]),
         ("unknown option of run with a terminal escape", ["run", "--frob\x1b[31m", "a"]),
         ("unknown option of inspect with a carriage return", ["inspect", "a", "--frob\rnicate"]),
         ("unknown option that is no UTF-8", ["run", b"--frob\xff", "a"]),
         ("unknown short option that is a control byte", ["run", "-\x1b", "a"]),
         ("unknown short option that is not ASCII", ["run", "-\u00e4", "a"]),
         ("unknown short option behind a known one", ["run", "-j\u00e4", "a"]),
         ("option with a terminal escape behind two dashes of the command", ["--", "run", "--frob\x1b[31m"])]


def shows(args, words):
    def case():
        done = nxmem(*args)
        equal(done.returncode, 0)
        equal(done.stderr, b"")
        for word in words:
            assert word.encode() in done.stdout, f"{word} is not in the help"
    return case


def is_wrong(args):
    def case():
        done = nxmem(*args)
        equal(done.returncode, 2)
        equal(done.stdout, b"")
        assert fits_a_terminal(done.stderr)
    return case


def words_behind_two_dashes_are_no_options():
    done = nxmem("inspect", "--json", "--", "-\x1b")
    equal(done.returncode, 3)


def lists_subcommands():
    done = nxmem("frobnicate")
    assert all(word in done.stderr for word in (b"frobnicate", b"inspect", b"run", b"conform", b"status", b"audit")), done.stderr


def is_not_written(args):
    def case():
        with open("/dev/full", "wb") as full:
            done = nxmem(*args(), stdout=full)
        equal(done.returncode, 3)
        equal(len(done.stderr.splitlines()), 1)
    return case


def reader_went_away(args):
    def case():
        reader, writer = os.pipe()
        os.close(reader)
        done = nxmem(*args(), stdout=writer)
        os.close(writer)
        equal((done.returncode, done.stderr), (3, b""))
    return case


def suffix_is_explained():
    done = nxmem("run", "--bytes", "1T", "a")
    assert b"'1T'" in done.stderr and b"K, M or G" in done.stderr, done.stderr


def output_is_closed():
    closing = '"$0" inspect "$1" >&-'
    done = subprocess.run(["sh", "-c", closing, Setting.nxmem, plugin("minimal")], stderr=subprocess.PIPE)
    equal(done.returncode, 3)


def make_rows():
    rows = [(name, shows(args, words)) for name, args, words in HELPS]
    rows.append(("version", shows(["--version"], ["0.1.0", "1.1"])))
    rows += [("wrong: " + name, is_wrong(args)) for name, args in WRONG]
    rows.append(("a wrong size is told which suffixes there are", suffix_is_explained))
    rows.append(("words behind two dashes are no options", words_behind_two_dashes_are_no_options))
    rows.append(("an unknown subcommand is named, and those that exist", lists_subcommands))
    def inspect():
        return ["inspect", plugin("minimal")]

    def run():
        return ["run", plugin("minimal")]

    def status():
        return ["status", write("scenario.json", b'{"steps": []}')]

    written = [("help", lambda: ["--help"]), ("version", lambda: ["--version"]),
               ("help of run", lambda: ["run", "--help"]),
               ("inspect", inspect), ("inspect as JSON", lambda: inspect() + ["--json"]),
               ("run", run), ("run as JSON", lambda: run() + ["--json"]),
               ("status", status), ("status as JSON", lambda: status() + ["--json"]), ("help of status", lambda: ["status", "--help"])]
    for name, args in written:
        rows.append((f"{name}: a full disk is reported", is_not_written(args)))
    rows.append(("inspect: a reader that went away ends it quietly", reader_went_away(inspect)))
    rows.append(("run as JSON: a reader that went away ends it quietly", reader_went_away(lambda: run() + ["--json"])))
    rows.append(("inspect: a closed standard output is reported", output_is_closed))
    return rows


if __name__ == "__main__":
    main(make_rows)
