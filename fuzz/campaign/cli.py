"""Arguments, exit codes, and the order of things."""
import argparse
import os
import pathlib
import socket
import sys
import tempfile
import traceback

from . import keeper, places, report, schedule
from .campaign import Campaign, Context
from .processes import CouldNotRun, Interrupted, Processes
from .programs import Programs
from .triage import Triage

FINE, FOUND, USAGE, COULD_NOT_RUN = 0, 1, 2, 3

DESCRIPTION = """\
One fuzzing campaign, or all in turns.

  fuzz TARGET SECONDS    one target; several engines share its corpus and the jobs
  fuzz --all SECONDS     every target on every engine, a slice each, again and again
  fuzz --planted ...     would it notice? faults planted into a copy (fuzz --planted --help)
"""
EPILOG = """\
The build is not part of SECONDS. The corpus of a target is build/fuzz/corpus/TARGET; what an engine says is in
build/fuzz/ENGINE/TARGET/log. A finding becomes a test: fuzz/found/TARGET/NAME.bin, and NAME.toml says what it is. What
failed once and never again is kept in build/fuzz/unreproduced/TARGET.
Last line: "fuzz TARGET: N execs, R/s, C edges, X findings", or with --all "fuzz --all: N execs, R/s, T targets, X
findings". Ctrl-C ends everything and still sums up; a second one waits for nothing.
Behind it, where there was no time for some target or no engine could run it: ", never ran: TARGET, ...".
Exit code: 0 no finding, 1 findings, 2 usage, 3 could not build or run, or (--all, not ended by Ctrl-C) some target never ran.
"""


class Usage(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Usage(message)


def count(text):
    if not text.isdecimal() or not 0 < int(text) < 10 ** 8:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 99999999")
    return int(text)


def parser():
    made = Parser(prog="fuzz", description=DESCRIPTION, epilog=EPILOG,
                  formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("words", nargs="*", metavar="TARGET SECONDS", help=f"a target: {', '.join(places.targets())}")
    made.add_argument("--all", type=count, metavar="SECONDS", help="all targets in turns, SECONDS in total")
    made.add_argument("--engine", metavar="NAMES", help="libfuzzer (AddressSanitizer, UndefinedBehaviorSanitizer), afl "
                      "(AFL++), contract (the core with its proved contracts compiled in; target core alone); several "
                      "with commas. Default: libfuzzer; with --all, all")
    made.add_argument("--jobs", type=count, metavar="N",
                      help="fuzzing processes at a time (default 1; with --all one a processor)")
    made.add_argument("--first", action="store_true", help="the first finding ends the campaign")
    made.add_argument("--alone", type=count, default=60, metavar="SECONDS",
                      help="what an input may take by itself; more is a finding (default 60)")
    made.add_argument("--sync", type=pathlib.Path, metavar="DIR", help="a folder shared with other machines: what they "
                      "found is taken, what was found here is put there")
    made.add_argument("--machine", default=socket.gethostname(), metavar="NAME", help="this machine's name in that folder")
    made.add_argument("--build", type=pathlib.Path, default=places.ROOT / "build", metavar="DIR",
                      help="where programs, corpora and logs are (default: build)")
    made.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the summary for programs")
    return made


def engines_of(text, default):
    names = tuple(dict.fromkeys(text.split(","))) if text else default
    for name in names:
        if name not in places.ENGINES:
            raise Usage(f"no engine '{name}'; there are: {', '.join(places.ENGINES)}")
    return names


def plan(arguments):
    """Returns the schedule, its seconds and its name."""
    if arguments.all is not None:
        if arguments.words:
            raise Usage(f"--all takes no target, found '{arguments.words[0]}'")
        engines = engines_of(arguments.engine, places.ENGINES)
        jobs = arguments.jobs or os.cpu_count()
        return schedule.for_all(places.targets(), engines, arguments.all, jobs), arguments.all, "--all"
    if len(arguments.words) != 2:
        raise Usage("needs TARGET SECONDS, or --all SECONDS")
    target, seconds = arguments.words
    if target not in places.targets():
        raise Usage(f"no target '{target}'; there are: {', '.join(places.targets())}")
    engines = engines_of(arguments.engine, ("libfuzzer",))
    if "contract" in engines and target not in places.WITH_CONTRACTS:
        raise Usage("the engine contract runs the target core and no other: only the core has contracts")
    try:
        seconds = count(seconds)
    except argparse.ArgumentTypeError as problem:
        raise Usage(str(problem)) from None
    return schedule.for_target(target, engines, seconds, arguments.jobs or 1), seconds, target


def check_folders(arguments):
    if not arguments.machine or "/" in arguments.machine or arguments.machine.startswith("."):
        raise Usage(f"'{arguments.machine}' is no name for a machine: one word, no slash, no dot in front")
    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        raise Usage(f"--json: there is no folder {arguments.json.absolute().parent}")


def check_sync(folder):
    """Before anything is built: a night alone is not what was asked for."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tried-") as file:
            file.write(b"a file can be written here")
    except OSError as problem:
        raise CouldNotRun(f"--sync: {problem}") from None


def campaign(arguments):
    what, seconds, name = plan(arguments)
    check_folders(arguments)
    check_sync(arguments.sync)
    where = places.Places(arguments.build.absolute())
    processes = Processes()
    builds = Programs(where, processes, report.say)
    triage = Triage(where, processes, builds, report.say, arguments.alone)
    context = Context(where, processes, builds, triage, arguments.sync and arguments.sync.absolute(), arguments.machine,
                      arguments.alone, arguments.first)
    run = Campaign(context, what, seconds, name)
    try:
        run.run()
    finally:
        keeper.end_all()
    if not run.rows:
        report.complain("ended before anything ran")
        return COULD_NOT_RUN
    found = run.close(every=arguments.all is not None)
    if arguments.json is not None:
        run.write_json(arguments.json)
    if not found and not any(row.execs for row in run.rows.values()):
        report.complain(f"nothing ran; the engines' words are in {where.build / 'fuzz'}")
        return COULD_NOT_RUN
    missed = arguments.all is not None and not processes.interrupted and run.never_ran()
    if (run.troubles or run.unshared or missed) and not found:
        return COULD_NOT_RUN
    return FOUND if found else FINE


def driver(words):
    try:
        return campaign(parser().parse_args(words))
    except Usage as problem:
        report.complain(f"{problem}; --help explains")
        return USAGE
    except (CouldNotRun, Interrupted, OSError) as problem:
        report.complain(str(problem) or "interrupted")
        return COULD_NOT_RUN
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        return COULD_NOT_RUN


def main(words):
    if "--planted" in words:
        at = words.index("--planted")
        program = places.ROOT / "fuzz/planted/matrix.py"
        os.execv(sys.executable, [sys.executable, str(program), *words[:at], *words[at + 1:]])
    if "-h" in words or "--help" in words:
        parser().print_help()
        return FINE
    return keeper.guarded(lambda: driver(words))
