"""The rules of the tree: which folder may include which, how long a file may be, what the core may need.

Each rule is a function that yields complaints; check_layers.py prints them, layers_test.py shows that each can be
broken.
A tree is {path: text} with paths relative to the root and only text files in it.
"""
import os
import re
import subprocess

LINES_MAX = 500
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
C_FILE = (".c", ".h")
PRUNED = {".git", "build", "__pycache__"}

# Longest prefix wins. The command and the adapters see the host as its users do.
AREAS = [("host/cli/", "cli"), ("host/adapters/", "adapter"), ("host/include/", "host-public"), ("host/", "host"),
         ("abi/include/", "abi-public"), ("abi/", "abi"), ("plugins/", "plugins"),
         ("tests/", "tests"), ("fuzz/", "fuzz"), ("proofs/", "proofs")]
MAY_SEE = {
    "abi-public": {"abi-public"},
    "abi": {"abi-public", "abi"},
    "host-public": {"abi-public", "host-public"},
    "host": {"abi-public", "host-public", "host"},
    "cli": {"abi-public", "host-public", "cli"},
    "adapter": {"abi-public", "host-public", "adapter"},
    "plugins": {"abi-public", "plugins"},
}
CORE_HEADERS = {"stdint.h", "stddef.h"}
# A compiler may make these out of plain assignments, also in freestanding code.
COMPILER_CALLS = {"memcpy", "memset", "memmove", "memcmp"}


def area_of(path):
    for prefix, area in AREAS:
        if path.startswith(prefix):
            return area
    return "other"


def listed_files(root):
    """Git's files where the root is a checkout, tracked or not yet added; what lies there otherwise."""
    if os.path.exists(os.path.join(root, ".git")):
        command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return [path for path in done.stdout.split("\0") if path]
    found = []
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in PRUNED]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return found


def load_tree(root):
    tree = {}
    for path in listed_files(root):
        full = os.path.join(root, path)
        if not os.path.isfile(full) or os.path.islink(full):
            continue
        with open(full, "rb") as file:
            content = file.read()
        if b"\0" not in content:
            tree[path] = content.decode("utf-8", "replace")
    return tree


def resolve(tree, path, target):
    """The file of the tree that an include names, looked for beside it, in its area, in public headers; else None."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), target))
    if beside in tree:
        return beside
    ends = [candidate for candidate in tree if candidate == target or candidate.endswith("/" + target)]
    near = [candidate for candidate in ends if area_of(candidate).split("-")[0] == area_of(path).split("-")[0]]
    public = [candidate for candidate in ends if "/include/" in candidate]
    for choice in (near, public, ends):
        if choice:
            return choice[0]
    return None


def includes(tree, areas):
    for path in sorted(tree):
        if path.endswith(C_FILE) and area_of(path) in areas:
            for bracket, target in INCLUDE.findall(tree[path]):
                yield path, bracket, target, resolve(tree, path, target)


def backward_includes(tree, areas):
    """Includes that point against plugins -> abi <- host <- cli, or at tests, fuzz or proofs."""
    for path, _, target, found in includes(tree, areas):
        if ".." in target.split("/"):
            yield f"{path} includes {target}: a path with .."
        elif found and area_of(found) not in MAY_SEE[area_of(path)]:
            yield f"{path} includes {target}, which is {found}"


def unresolved_includes(tree):
    """Quoted includes that name no file of the tree."""
    for path, bracket, target, found in includes(tree, {area for _, area in AREAS}):
        if bracket == '"' and found is None:
            yield f"{path} includes {target}, which is no file here"


def core_system_includes(tree):
    for path, bracket, target, _ in includes(tree, {"abi", "abi-public"}):
        if bracket == "<" and target not in CORE_HEADERS:
            yield f"{path} includes <{target}>"


def foreign_plugin_includes(tree):
    """One plugin's folder including another's: each must be copyable by itself."""
    for path, _, target, found in includes(tree, {"plugins"}):
        if found and area_of(found) == "plugins" and found.split("/")[1] != path.split("/")[1]:
            yield f"{path} includes {target}, which is {found}"


def headerless_plugin_includes(tree):
    """The plugin that must not know our header."""
    for path, _, target, found in includes(tree, {"tests"}):
        if path.startswith("tests/layout/plugin_without_header/") and found:
            yield f"{path} includes {target}, which is {found}"


def long_files(tree):
    for path, text in sorted(tree.items()):
        lines = text.count("\n") + (0 if text.endswith("\n") or not text else 1)
        if lines > LINES_MAX and os.path.basename(path) != "LICENSE":
            yield f"{path} has {lines} lines, at most {LINES_MAX}"


def uncompiled_sources(tree, compiled):
    """C files of the product, tests and fuzz targets that no target of the build takes."""
    for path in sorted(tree):
        wanted = path.endswith(".c") and area_of(path) in MAY_SEE
        wanted = wanted or path.endswith("_test.c") or re.fullmatch(r"fuzz/(targets|oracle)/[^/]+\.c", path) is not None
        if wanted and path not in compiled:
            yield f"{path} is in no target"


def unregistered_scripts(tree, commands):
    """Test scripts that CTest never starts. `commands` is every word of every test's command."""
    for path in sorted(tree):
        if path.startswith("tests/") and re.search(r"_test\.(py|sh)$", path):
            if not any(word.endswith("/" + path) for word in commands):
                yield f"{path} is in no test"


def unregistered_programs(programs, commands):
    """Test programs and fuzz targets that were built but are in no test."""
    for program in sorted(programs):
        if not any(os.path.basename(word) == program for word in commands):
            yield f"{program} is in no test"


def unproved_sources(tree):
    manifest = tree.get("proofs/targets.toml", "")
    for path in sorted(tree):
        if re.fullmatch(r"abi/src/[^/]+\.c", path) and f'"{path}"' not in manifest:
            yield f"{path} is in no proof target"


def missing_symbols(symbols):
    """`symbols`: (kind, name) as nm prints them. What the core needs beyond itself."""
    defined = {name for kind, name in symbols if kind in "TtRrDdBbCVvWw"}
    for kind, name in symbols:
        if kind == "U" and name not in defined and name not in COMPILER_CALLS:
            yield f"calls {name}"


def mutable_symbols(symbols):
    for kind, name in symbols:
        if kind in "DdBbCGgSs":
            yield f"{name} is writable data"


def foreign_exports(symbols):
    for kind, name in symbols:
        if kind not in "AU" and not name.startswith("nxmem_"):
            yield f"exports {name}"
