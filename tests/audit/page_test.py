#!/usr/bin/env python3
"""What nxmem audit writes for others: SARIF by the parts that its schema requires, and the page in a browser. Prints TAP."""
import html.parser
import json
import os
import shutil
import struct
import subprocess

from common import audit, clean
from harness import Setting, equal, main, nxmem, plugin, scratch, write

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">&amp;'\"</td>"

# ---- SARIF 2.1.0 (the schema's "required", "enum" and "additionalProperties": false, of the objects that we write)

TEXT, BOOLEAN, NUMBER = str, bool, int
MESSAGE = {"text": TEXT}
ARTIFACT = {"uri": TEXT}
LOCATION = {"physicalLocation": {"artifactLocation": ARTIFACT}}
LEVELS, KINDS = ("none", "note", "warning", "error"), ("notApplicable", "pass", "fail", "review", "open", "informational")
RULE = {"id": TEXT, "name": TEXT, "shortDescription": MESSAGE, "fullDescription": MESSAGE, "help": MESSAGE,
        "defaultConfiguration": {"level": LEVELS}}
RESULT = {"ruleId": TEXT, "ruleIndex": NUMBER, "kind": KINDS, "level": LEVELS, "message": MESSAGE, "locations": [LOCATION]}
NOTIFICATION = {"level": LEVELS, "message": MESSAGE, "locations": [LOCATION]}
INVOCATION = {"executionSuccessful": BOOLEAN, "exitCode": NUMBER, "toolExecutionNotifications": [NOTIFICATION]}
SCHEMA = {"$schema": TEXT, "version": ("2.1.0",), "runs": [{
    "tool": {"driver": {"name": TEXT, "version": TEXT, "rules": [RULE]}}, "invocations": [INVOCATION], "results": [RESULT]}]}


def fits(value, schema, where="root"):
    if isinstance(schema, dict):
        assert isinstance(value, dict), f"{where} is no object"
        equal((where, set(value)), (where, set(schema)))
        for key, inner in schema.items():
            fits(value[key], inner, f"{where}.{key}")
    elif isinstance(schema, list):
        assert isinstance(value, list), f"{where} is no array"
        for i, item in enumerate(value):
            fits(item, schema[0], f"{where}[{i}]")
    elif isinstance(schema, tuple):
        assert value in schema, f"{where} is {value!r}"
    else:
        assert type(value) is schema, f"{where} is {value!r}"


def sarif(*args):
    path = os.path.join(Setting.scratch, "out.sarif")
    document, _ = audit("--static", "--sarif", path, *args)
    with open(path, encoding="utf-8") as file:
        return document, json.load(file)


def sarif_is_valid():
    text = os.fsdecode(write("text file.txt", b"x"))
    document, log = sarif(clean("sarif", ["-Wl,-z,execstack", "-Wl,-z,lazy", "-DOTHER_EXPORT"]), text)
    fits(log, SCHEMA)
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    equal(len({rule["id"] for rule in rules}), len(rules))
    equal([(r["ruleId"], r["level"]) for r in run["results"]],
          [(f["rule"], f["level"]) for file in document["files"] for f in file["findings"]])
    for result in run["results"]:
        equal(rules[result["ruleIndex"]]["id"], result["ruleId"])
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.startswith("file:///") and " " not in uri, uri
    equal(len(run["invocations"][0]["toolExecutionNotifications"]), 1)
    equal(run["invocations"][0]["exitCode"], 1)


def sarif_of_a_hostile_name():
    path = os.path.join(Setting.scratch, "a b%\x1b\u00e4<.so")
    shutil.copyfile(clean("odd"), path)
    _, log = sarif(path)
    fits(log, SCHEMA)
    for result in log["runs"][0]["results"]:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.isascii() and not set(uri) & set(' <>"\x1b'), uri


# ---- The page


class Elements(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def hostile_plugin():
    """Its search path is text that a careless page would run."""
    path = clean("page", ["-Wl,-rpath,/" + HOSTILE, "-Wl,-z,execstack", "-Wl,-z,lazy", "-DOTHER_EXPORT"])
    named = os.path.join(Setting.scratch, "<b onclick=x>&.so")
    shutil.copyfile(path, named)
    return named


def page(*args):
    path = os.path.join(Setting.scratch, "out.html")
    document, _ = audit("--static", "--html", path, *args)
    with open(path, encoding="utf-8") as file:
        return document, file.read(), path


def parsed(text):
    elements = Elements()
    elements.feed(text)
    return elements


def page_holds_text_alone():
    document, text, _ = page(hostile_plugin())
    elements = parsed(text)
    tags = {tag for tag, _ in elements.tags}
    assert not tags & {"script", "img", "b", "iframe", "link", "a", "object", "form"}, tags
    assert not any(key.startswith("on") or key in ("src", "href") for _, attrs in elements.tags for key in attrs)
    shown = "".join(elements.text)
    for finding in document["files"][0]["findings"]:
        assert finding["evidence"] in shown, finding
    assert HOSTILE in shown


def page_tells_all():
    """What was learnt is on the page in words: no key with an underscore, no list without a word."""
    path = os.path.join(Setting.scratch, "told.html")
    document, _ = audit("--cycles", "0", "--html", path, plugin("minimal"), write("text", b"x"), scratch("gone"))
    with open(path, encoding="utf-8") as file:
        shown = "".join(parsed(file.read()).text)
    for text in ("landlock-files, keeps away writing to, making and removing files, available", "text relocations no", "filters",
                 "mechanism minimal, device host:0", "could-not-run: ", "no-plugin: "):
        assert text in shown, text
    for file in document["files"]:
        assert file["file"] in shown and file.get("message", "") in shown, file
    equal([word for word in ("keeps_away", "text_relocations", "versions_needed", "{", "[") if word in shown.split("nxmem audit", 2)[-1]], [])


def chromium(path, *args):
    folder = scratch("chromium")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
               "--hide-scrollbars", "--window-size=1200,1400", f"--user-data-dir={os.fsdecode(folder)}", *args, f"file://{path}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-500:]
    return done.stdout


def page_in_a_browser():
    document, _, path = page(hostile_plugin())
    dom = chromium(path, "--dump-dom").decode()
    elements = parsed(dom)
    tags = [tag for tag, _ in elements.tags]
    assert "script" not in tags and "img" not in tags and "b" not in tags, tags
    equal(tags.count("h2"), 1)
    equal(tags.count("details") >= len(document["files"][0]["findings"]), True)
    shown = "".join(elements.text)
    assert HOSTILE in shown, shown
    equal(dom.split("<title>")[1].split("</title>")[0], "nxmem audit")


def size_of_png(path):
    with open(path, "rb") as file:
        head = file.read(24)
    assert head.startswith(b"\x89PNG"), head
    return struct.unpack(">II", head[16:24])


def page_has_a_picture():
    _, _, path = page("--against", clean("before"), hostile_plugin())
    picture = os.path.join(os.environ.get("NXMEM_PICTURES", Setting.scratch), "audit.png")
    chromium(path, f"--screenshot={picture}")
    width, height = size_of_png(picture)
    assert width >= 1200 and height >= 1400, (width, height)
    assert os.path.getsize(picture) > 20000, "an empty page"


def page_not_written():
    equal(nxmem("audit", "--static", "--html", scratch("no/folder"), clean("unwritten")).returncode, 3)
    equal(nxmem("audit", "--static", "--html", "/dev/full", clean("full")).returncode, 3)


def make_rows():
    return [("SARIF is valid", sarif_is_valid), ("SARIF of a hostile name", sarif_of_a_hostile_name),
            ("the page holds text alone", page_holds_text_alone), ("the page tells all", page_tells_all), ("the page in a browser", page_in_a_browser),
            ("the page has a picture", page_has_a_picture), ("a page that is not written", page_not_written)]


if __name__ == "__main__":
    main(make_rows)
