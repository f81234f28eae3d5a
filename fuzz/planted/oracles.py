"""Has every oracle been seen to speak? Each place in the harness that fails an input, and the planted fault that made it do so."""
import glob
import os
import re

FOLDERS = ("targets", "targets/core", "oracle", "life", "owners", "vmm", "support")
# name -> which argument is the oracle, which one what it says; one that is a literal is known here, the others are their caller's.
CALLS = re.compile(r"\b(fuzz_fail|fuzz_same_verdict|fuzz_same_bytes|fuzz_same_number|life_fail|life_expect|life_same_result|same|own_expect|own_same|own_result|own_axes|same_figures|vm_fail|vm_expect|vm_same)\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What can only speak where something before it is silent by a mistake of its own.
BEHIND_ANOTHER = {
    "ORACLE show: a byte was dropped though the room sufficed, or what is shown is not printable":
        "the same bytes were equal to the reference's: speaks where that errs too",
    "ORACLE response in its room: ": "the whole answer was equal to the reference's",
    "ORACLE life: close at the end": "life_close() judges the same result first",
    "ORACLE life: close: refused for what came later": "nothing comes later unless the plugin is asked: `refused with nothing live`",
    "ORACLE life: close: refused, and the plugin was asked": "what a closer asks is looked at in the slot that it asks",
    "ORACLE life: load at the end": "life_load() judges the same result first",
    "ORACLE life: unload: refused, and the plugin was asked": "what is reported then is booked, and the books differ first",
    "ORACLE life: unload at the end": "life_unload() judges the same result first",
    "ORACLE life: at the end a slot is taken": "what is live in the host and not in the model is counted first; what is not given back is `missing`",
    "ORACLE life: memory is lost": "libFuzzer's own look for leaks comes first",
    "ORACLE vmm: memory is lost": "libFuzzer's own look for leaks comes first",
    "ORACLE vmm: the driver's reservation": "what is reserved and given back in a section is compared when the section is read",
    "ORACLE vmm: a block's first byte in a granule is another's": "addresses are compared, and the driver refuses two mappings of which one is written",
    "ORACLE vmm: a block's last byte in a granule is another's": "addresses are compared, and the driver refuses two mappings of which one is written",
    "ORACLE vmm: a prefix's bytes through a view": "the handles that a view maps are compared first",
    "ORACLE vmm: release nothing": "`retain nothing` asks the same check first",
    "ORACLE vmm: handles go without the driver": "without a section nothing goes that the driver would have to take",
    "ORACLE vmm: more handles are destroyed than went": "what is destroyed beside them is mapped, or no handle: the driver says so at once",
    "ORACLE vmm: more handles come from the pool than it has": "what comes beside them is mapped, or was given back: the driver says so at once",
    "ORACLE vmm: alignment of a reservation": "the rung that is asked for and the first handle's size differ too, and speak first",
    "ORACLE vmm: an allocator was opened without a driver": "it would be called, and the process ends there",
    "ORACLE vmm: an allocator is left": "the model's own list: what the engine keeps is told by its report, which is compared first",
    "ORACLE path: the message is not printable": "the line was put together by what `error` compares byte by byte",
    "ORACLE path: the advice is cut": "the line was put together by what `error` compares byte by byte",
    "ORACLE owners: allocate: a plugin is entered whose device is lost": "the host's own gate is shut before: it lets nobody in",
    "ORACLE owners: release: a plugin is entered whose device is lost": "the host's own gate is shut before: it lets nobody in",
    "ORACLE owners: pages: a plugin is entered whose device is lost": "the host's own gate is shut before: it lets nobody in",
    "ORACLE owners: remove: a plugin is entered whose device is lost": "a removal that has to be refused is no call that may enter: the harness says so first",
    "ORACLE owners: open: not asked": "the slot is the factory's, which nothing but an opening knows",
    "ORACLE owners: at the end a mechanism is left": "what its removal answers is compared first",
    "ORACLE owners: at the end a manager is left": "what its destruction answers is compared first",
    "ORACLE owners: at the end a registry is left": "what its destruction answers is compared first",
}
ONE_ORACLE = {"life_fail": "life", "life_expect": "life", "life_same_result": "life", "same": "life",
              "own_expect": "owners", "own_same": "owners", "own_result": "owners", "own_axes": "owners", "same_figures": "owners",
              "vm_fail": "vmm", "vm_expect": "vmm", "vm_same": "vmm"}


def arguments_of(text, start):
    """The arguments of the call whose parenthesis opens at `start`; none in the definition of the function itself."""
    depth, begin, found, at = 0, start + 1, [], start
    while at < len(text):
        letter = text[at]
        if letter == '"':
            at = LITERAL.match(text, at).end()
            continue
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0:
                return [*found, text[begin:at].strip()]
        elif letter == "," and depth == 1:
            found.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return found


def literal(text):
    found = LITERAL.match(text)
    return found.group(1).replace('\\"', '"') if found else None


def sites(root):
    """{"file:line", "says": how its line begins}; a place whose words come from its caller is known by the caller."""
    found = []
    for folder in FOLDERS:
        for path in sorted(glob.glob(f"{root}/fuzz/{folder}/*.c")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for call in CALLS.finditer(text):
                says = words_of(call.group(1), arguments_of(text, call.end() - 1))
                if says:
                    line = text.count("\n", 0, call.start()) + 1
                    found.append({"where": f"{os.path.relpath(path, root)}:{line}", "says": says})
    return found


def words_of(function, arguments):
    """How the line begins that this place prints; "" where that is not known here, or where it is no oracle."""
    if function in ONE_ORACLE:
        what = next((word for word in map(literal, arguments) if word), None)
        return f"ORACLE {ONE_ORACLE[function]}: {what}" if what and not what.startswith("harness") else ""
    oracle = literal(arguments[0])
    if oracle is None or oracle == "harness":  # that speaks of the harness itself
        return ""
    if function != "fuzz_fail":
        return f"ORACLE {oracle}: "
    return f"ORACLE {oracle}: {re.split('%', literal(arguments[1]) or '')[0]}"


def alarms(record):
    """(fault, what was said)"""
    for name, entry in record.data["faults"].items():
        for answer in entry["layers"].values():
            for said in answer.get("alarms", []):
                yield name, said


def show(root, kept):
    """Prints the table and what is left; 1 where a place never spoke. Of several that say the same, one is known to have spoken."""
    said, silent = [pair for record in kept for pair in alarms(record)], 0
    found = sites(root)
    for site in found:
        by = sorted({name for name, words in said if words.startswith(site["says"])})
        behind = BEHIND_ANOTHER.get(site["says"])
        silent += not by and not behind
        who = ", ".join(by[:3]) + (f" and {len(by) - 3} more" if len(by) > 3 else "")
        print(f"{site['where']:<36} {site['says'][7:67]:<60} {who or (f'({behind})' if behind else 'NEVER')}")
    known = tuple(site["says"] for site in found)
    others = sorted({re.sub(r"0x[0-9a-f]+|\d+", "N", words)[:80] for _, words in said if not words.startswith(known)})
    for words in others:
        print(f"beside the oracles: {words}")
    there = [site for site in found if site["says"] not in BEHIND_ANOTHER]
    print(f"oracles: {len(there) - silent}/{len(there)} places have spoken")
    return int(bool(silent))
