"""What was answered: the record, the table of it, and the sums. For matrix.py."""
import json
import os
import statistics

import layers as layers_of

FORMAT = 1
FUZZERS = {"libfuzzer": "libFuzzer", "afl": "AFL++"}
HEADS = {"proof": "proof", "unit": "unit test", "contract": "contract", **FUZZERS}


def in_words(answer):
    if answer.get("not_asked"):
        return f"NOT ASKED: {answer['not_asked'].splitlines()[0][:160]}"
    if not answer["seen"]:
        return "silent" + (f" ({answer['far']})" if answer.get("far", "-") != "-" else "")
    seconds = answer.get("seconds")
    return (f"{seconds:.1f} s " if seconds is not None else "") + f"[{answer['by'][:100]}]"


class Record:
    """Kept in one file, whole after every answer. `key` says what an answer depends on."""

    def __init__(self, path, fresh):
        self.path = path
        self.data = {"format": FORMAT, "faults": {}, "unchanged": {}}
        if not fresh and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if found.get("format") == FORMAT:
                self.data = found

    def answer(self, kind, name, layer):
        return self.data[kind].get(name, {}).get("layers", {}).get(layer)

    def has(self, kind, name, layer, key):
        answer = self.answer(kind, name, layer)
        return bool(answer) and answer["key"] == key and not answer.get("not_asked")

    def put(self, kind, name, layer, answer, fault):
        entry = self.data[kind].setdefault(name, {"layers": {}})
        if fault:
            entry.update({key: fault.get(key) for key in ("target", "file", "kind")})
        entry["layers"][layer] = answer
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(f"{self.path}.new", "w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=1)
        os.replace(f"{self.path}.new", self.path)

    # ---- Sums -----------------------------------------------------------------------------------------------------------

    def seen(self, fault, layer):
        answer = self.answer("faults", fault.name, layer)
        return bool(answer and answer["seen"])

    def seen_by_a_fuzz_target(self, fault, budget):
        """Contracts that run are a fuzz target's oracle too."""
        answers = [self.answer("faults", fault.name, layer) for layer in ("contract", *FUZZERS)]
        return any(a and a["seen"] and (a["seconds"] or 0) <= budget for a in answers)

    def summary(self, faults, layers, budget):
        problems, not_asked, none = [], 0, []
        for fault in faults:
            answers = {layer: self.answer("faults", fault.name, layer) for layer in layers if layers_of.applies(layer, fault["file"])}
            for layer, answer in answers.items():
                why = "not yet" if answer is None else answer.get("not_asked")
                not_asked += bool(why)
                problems += [f"not asked: {fault.name}, {layer}: {why}"] if why else []
            if not any(self.seen(fault, layer) for layer in layers):
                none.append(fault.name)
        problems += [f"no fuzz target: {fault.name}" for fault in faults
                     if set(layers) & {"contract", *FUZZERS} and not self.seen_by_a_fuzz_target(fault, budget)]
        problems += [f"no layer: {name}" for name in none]
        alarms = [f"false alarm: {target}, {layer}: {answer['by']}" for target in sorted({fault["target"] for fault in faults})
                  for layer in layers if (answer := self.answer("unchanged", target, layer)) and answer["seen"]]
        return {"faults": len(faults), "fuzz": sum(self.seen_by_a_fuzz_target(fault, budget) for fault in faults),
                "some": len(faults) - len(none), "none": len(none), "not_asked": not_asked, "false_alarms": len(alarms),
                "problems": problems + alarms}

    # ---- The table ------------------------------------------------------------------------------------------------------

    def cell(self, fault, layer):
        if not layers_of.applies(layer, fault["file"]):
            return "n/a"
        answer = self.answer("faults", fault.name, layer)
        if answer is None:
            return ""
        if answer.get("not_asked"):
            return "?"
        if not answer["seen"]:
            return "-" if layer not in FUZZERS else f"- {answer['far'].strip('-')}".strip()
        if layer in ("proof", "unit"):
            return "yes"
        other = f" {answer['target']}" if layer in FUZZERS and answer["target"] != fault["target"] else ""
        return f"{answer['seconds']:.1f} s{other}"

    def by(self, fault, layers):
        """The last layer's word is the most telling for a reader: an oracle's."""
        for layer in reversed(layers):
            answer = self.answer("faults", fault.name, layer)
            if answer and answer["seen"]:
                return answer["by"]
        return ""

    def rows(self, faults, layers):
        return [[fault.name, fault["target"], *(self.cell(fault, layer) for layer in layers), self.by(fault, layers)] for fault in faults]

    def text(self, faults, layers):
        rows = [["fault", "main target", *(HEADS[layer] for layer in layers), "seen by"], *self.rows(faults, layers)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        return "\n".join("  ".join([*(f"{word:<{width}}" for word, width in zip(row, widths)), row[-1][:90]]) for row in rows)

    def tap(self, faults, layers):
        """A fault that is seen, and a target that is silent without one, are ok."""
        rows = [(any(self.seen(fault, layer) for layer in layers), f"{fault.name} is seen") for fault in faults]
        for target in sorted({fault["target"] for fault in faults}):
            answers = [a for layer in layers if (a := self.answer("unchanged", target, layer))]
            rows.append((bool(answers) and not any(a["seen"] or a.get("not_asked") for a in answers), f"{target} is silent without a fault"))
        return "\n".join([f"1..{len(rows)}", *(f"{'ok' if good else 'not ok'} {number} - {name}" for number, (good, name) in enumerate(rows, 1))])

    def medians(self, faults, layers):
        lines = []
        for layer in layers:
            if layer in FUZZERS:
                times = [a["seconds"] for fault in faults if (a := self.answer("faults", fault.name, layer)) and a["seen"]]
                if times:
                    lines.append(f"{HEADS[layer]}: {len(times)} detected; median of the medians {statistics.median(times):.1f} s, "
                                 f"longest {max(times):.1f} s")
        return lines

    def write_table(self, faults, options):
        layers = options.layers
        head = ["fault", "main target", *(HEADS[layer] for layer in layers), "seen by"]
        lines = ["# Planted faults", "",
                 f"Processor seconds to detection, the median of {options.tries} (AFL++: {options.afl_tries}) runs of at most {options.budget:g} s.", "",
                 "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(word.replace("|", "\\|")[:120] for word in row) + " |" for row in self.rows(faults, layers)]
        lines += ["", *self.medians(faults, layers), ""]
        with open(os.path.splitext(self.path)[0] + ".md", "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
