"""The report as text: Markdown for a terminal or a forge, HTML that needs nothing from outside."""
import html

import report_data

HEAD = ("function", "world", "claim", "goals", "smoke", "provers", "mutants", "Eva", "not proved")
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 2rem; }
th, td { border-bottom: 1px solid #ddd; padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
th { background: #f4f4f4; position: sticky; top: 0; }
code { font-size: 0.92em; overflow-wrap: anywhere; }
.bad { background: #fde8e8; }
.gap { background: #fff6d6; }
"""


def marked(state, text):
    """A stale number never stands there as if it were today's."""
    return f"stale ({text})" if state == report_data.STALE else text


def provers_text(counts):
    return ", ".join(f"{name} {number}" for name, number in counts.items() if number)


def proof_cells(line):
    proof = line["proof"]
    if "goals" not in proof:
        return (proof["state"],) * 3
    state = proof["state"]
    return (marked(state, f"{proof['proved']}/{proof['goals']}"), marked(state, f"{proof['passed']}/{proof['smoke']}"),
            marked(state, provers_text(proof["provers"]) or "not recorded"))


def mutants_cell(line):
    tally = line["mutants"]
    if "total" not in tally:
        return tally["state"]
    if not tally["total"]:
        return marked(tally["state"], "none generated")
    parts = [f"{tally[name]} {name}" for name in ("contract", "proof", "unit", "justified", "survived") if tally[name]]
    return marked(tally["state"], f"{tally['total']}: " + ", ".join(parts))


def eva_cell(line):
    eva = line["eva"]
    if "statements" not in eva:
        return eva["state"]
    return marked(eva["state"], f"{len(eva['alarms'])} alarms, {eva['reached']}/{eva['statements']} statements")


def cells(line):
    return (line["function"], line["world"], line["claim"], *proof_cells(line), mutants_cell(line), eva_cell(line),
            line["unproved"])


def kind_of(line):
    """"bad" where a number shows something open, "gap" where evidence is missing or stale."""
    proof, tally, eva = line["proof"], line["mutants"], line["eva"]
    if proof.get("proved", 0) < proof.get("goals", 0) or proof.get("passed", 0) < proof.get("smoke", 0):
        return "bad"
    if tally.get("survived") or eva.get("alarms"):
        return "bad"
    states = (proof["state"], tally["state"], eva["state"])
    return "gap" if report_data.MISSING in states or report_data.STALE in states else ""


def input_rows(data):
    rows = []
    for kind, source in data["inputs"].items():
        record = source["record"] or {}
        rows.append((kind, source["state"] + (f": {source['why']}" if source["why"] else ""), record.get("mode", ""),
                     record.get("date", ""), record.get("revision", ""), str(record.get("seconds", "")), source["file"]))
    return rows


def tables(data):
    """(title, headings, rows, class of each row) of every table but the main one."""
    yield "Where the numbers come from", ("evidence", "state", "mode", "date", "revision", "seconds", "record"), \
        [(row, "" if row[1] == report_data.FRESH else "gap") for row in input_rows(data)]
    yield "Mutants that one layer alone notices", ("mutant", "layer", "state", "damage", "what noticed it", "why the others cannot"), \
        [((r["id"], r["layer"], r["state"], f"{r['before']} => {r['after']}" if r["before"] else "", r["witness"], r["why"]),
          "" if r["state"] == report_data.FRESH and r["killed_by"] == [r["layer"]] else "gap") for r in data["one_layer"]]
    models = (data["inputs"]["models"]["record"] or {}).get("rows", [])
    yield "Protocol models", ("row", "result"), [((r["text"], "ok" if r["ok"] else "not ok"), "" if r["ok"] else "bad") for r in models]
    yield "Assumptions", ("id", "kind", "where", "what is taken for granted", "why it is believed", "what would notice"), \
        [((e.get("id", ""), e.get("kind", ""), e.get("where", ""), e.get("text", ""), e.get("why", ""), e.get("check", "")), "")
         for e in data["ledger"]]


def by_file(lines):
    files = {}
    for line in lines:
        files.setdefault(line["file"], []).append(line)
    return files


def md_cell(text):
    return " ".join(str(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())


def md_table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(md_cell(cell) for cell in row) + " |"
    yield ""


def md_list(title, points):
    yield f"## {title}"
    yield ""
    yield from (f"- {md_cell(point)}" for point in points)
    yield from ([] if points else ["none"])
    yield ""


def markdown(data):
    """The whole report."""
    out = ["# What is claimed, proved, noticed and open", "", data["closing"], ""]
    out += md_list("Open points", data["open"])
    out += md_list("Not run", data["not_run"])
    for file, lines in by_file(data["lines"]).items():
        out += [f"## {file}", ""]
        out += md_table(HEAD, map(cells, lines))
    for title, head, rows in tables(data):
        out += [f"## {title}", ""]
        out += md_table(head, [row for row, _ in rows]) if rows else ["none", ""]
    return "\n".join(out)


def html_table(head, rows):
    yield "<table><thead><tr>" + "".join(f"<th>{html.escape(text)}</th>" for text in head) + "</tr></thead><tbody>"
    for row, kind in rows:
        label = f' class="{kind}"' if kind else ""
        yield f"<tr{label}>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
    yield "</tbody></table>"


def html_list(title, points, kind):
    yield f"<h2>{html.escape(title)}</h2>"
    if not points:
        yield "<p>none</p>"
        return
    yield "<ul>" + "".join(f'<li class="{kind}"><code>{html.escape(point)}</code></li>' for point in points) + "</ul>"


def page(data):
    """One HTML file; every text from outside is escaped, no script, nothing loaded."""
    out = ["<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8"><title>nxmem: what is proved</title>',
           f"<style>{STYLE}</style></head><body>", "<h1>What is claimed, proved, noticed and open</h1>",
           f"<p><code>{html.escape(data['closing'])}</code></p>"]
    out += html_list("Open points", data["open"], "bad")
    out += html_list("Not run", data["not_run"], "gap")
    for file, lines in by_file(data["lines"]).items():
        out.append(f"<h2><code>{html.escape(file)}</code></h2>")
        out += html_table(HEAD, [(cells(line), kind_of(line)) for line in lines])
    for title, head, rows in tables(data):
        out.append(f"<h2>{html.escape(title)}</h2>")
        out += html_table(head, rows) if rows else ["<p>none</p>"]
    return "\n".join(out + ["</body></html>", ""])
