#!/usr/bin/env python3
"""The tree rules' own test: each row is a small tree or symbol table, and whether a rule must complain of it. Prints
TAP."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import check_layers  # noqa: E402
import layers  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))

BASE = {
    "abi/include/nxmem_memory_abi.h": "#include <stdint.h>\n",
    "abi/include/nxmem/prefix.h": '#include "nxmem_memory_abi.h"\n',
    "abi/src/prefix.c": '#include "nxmem/prefix.h"\n#include <stddef.h>\n',
    "host/include/nxmem.h": '#include "nxmem_memory_abi.h"\n',
    "host/src/fetch.h": "",
    "host/src/fetch.c": '#include "fetch.h"\n#include "nxmem/prefix.h"\n#include <stdio.h>\n',
    "host/cli/main.c": '#include "nxmem.h"\n#include "nxmem/prefix.h"\n',
    "host/adapters/torch/include/nxmem_torch.h": '#include "nxmem.h"\n',
    "host/adapters/torch/torch.c": '#include "nxmem_torch.h"\n#include "nxmem/prefix.h"\n',
    "plugins/minimal/minimal.c": '#include "nxmem_memory_abi.h"\n#include <stdlib.h>\n',
    "plugins/scripted/script.h": "",
    "tests/core/support.h": "",
    "tests/core/prefix_test.c": '#include "support.h"\n#include "fetch.h"\n',
    "fuzz/oracle/reader.h": "",
    "proofs/loads.h": "",
    "tests/layout/plugin_without_header/no_header.c": "#include <stdint.h>\n",
}
PRODUCT = set(layers.MAY_SEE)


def backward(tree):
    return layers.backward_includes(tree, PRODUCT)


# name, rule, path that is altered, text appended to it, whether the rule must complain
TREES = [
    ("nothing wrong", backward, "abi/src/prefix.c", "", False),
    ("abi includes host", backward, "abi/src/prefix.c", '#include "nxmem.h"\n', True),
    ("abi includes host in brackets", backward, "abi/src/prefix.c", "#include <nxmem.h>\n", True),
    ("a public header of abi includes its sources", backward, "abi/include/nxmem/prefix.h",
     '#include "prefix.c"\n', True),
    ("abi includes proofs", backward, "abi/src/prefix.c", '#include "loads.h"\n', True),
    ("abi includes proofs by a path with ..", backward, "abi/src/prefix.c", '#include "../../proofs/loads.h"\n', True),
    ("host includes the command", backward, "host/src/fetch.c", '#include "main.c"\n', True),
    ("host includes tests", backward, "host/src/fetch.c", '#include "support.h"\n', True),
    ("host includes fuzz", backward, "host/src/fetch.c", '#include "reader.h"\n', True),
    ("host includes a plugin", backward, "host/src/fetch.c", '#include "script.h"\n', True),
    ("the public header includes the host's inside", backward, "host/include/nxmem.h", '#include "fetch.h"\n', True),
    ("the command includes the host's inside", backward, "host/cli/main.c", '#include "fetch.h"\n', True),
    ("an adapter includes the host's inside", backward, "host/adapters/torch/torch.c", '#include "fetch.h"\n', True),
    ("an adapter includes the command", backward, "host/adapters/torch/torch.c", '#include "main.c"\n', True),
    ("an adapter includes a plugin", backward, "host/adapters/torch/torch.c", '#include "script.h"\n', True),
    ("host includes an adapter", backward, "host/src/fetch.c", '#include "nxmem_torch.h"\n', True),
    ("the command includes an adapter", backward, "host/cli/main.c", '#include "nxmem_torch.h"\n', True),
    ("a plugin includes host", backward, "plugins/minimal/minimal.c", '#include "nxmem.h"\n', True),
    ("a plugin includes tests", backward, "plugins/minimal/minimal.c", '#  include "support.h"\n', True),
    ("tests include anything", backward, "tests/core/prefix_test.c", '#include "reader.h"\n#include "main.c"\n', False),
    ("a plugin includes another", layers.foreign_plugin_includes, "plugins/minimal/minimal.c",
     '#include "script.h"\n', True),
    ("a plugin includes the wire", layers.foreign_plugin_includes, "plugins/minimal/minimal.c", "", False),
    ("abi includes stdio.h", layers.core_system_includes, "abi/src/prefix.c", "#include <stdio.h>\n", True),
    ("abi includes string.h", layers.core_system_includes, "abi/include/nxmem/prefix.h",
     "# include <string.h>\n", True),
    ("abi includes stddef.h", layers.core_system_includes, "abi/src/prefix.c", "", False),
    ("the headerless plugin includes the header", layers.headerless_plugin_includes,
     "tests/layout/plugin_without_header/no_header.c", '#include "nxmem_memory_abi.h"\n', True),
    ("the headerless plugin includes it in brackets", layers.headerless_plugin_includes,
     "tests/layout/plugin_without_header/no_header.c", "#include <nxmem_memory_abi.h>\n", True),
    ("the headerless plugin includes the system", layers.headerless_plugin_includes,
     "tests/layout/plugin_without_header/no_header.c", "", False),
    ("an include of nothing", layers.unresolved_includes, "host/src/fetch.c", '#include "gone.h"\n', True),
    ("includes that all exist", layers.unresolved_includes, "host/src/fetch.c", "", False),
    ("a file of 500 lines", layers.long_files, "README.md", "x\n" * 500, False),
    ("a file of 501 lines", layers.long_files, "README.md", "x\n" * 501, True),
    ("a file of 500 lines and a bit", layers.long_files, "README.md", "x\n" * 500 + "x", True),
    ("a long licence", layers.long_files, "LICENSE", "x\n" * 900, False),
    ("a core source without proof", layers.unproved_sources, "proofs/targets.toml", "", True),
    ("a core source with proof", layers.unproved_sources, "proofs/targets.toml",
     'source = "abi/src/prefix.c"\n', False),
]

COMPILED = {"abi/src/prefix.c", "host/src/fetch.c", "host/cli/main.c", "host/adapters/torch/torch.c", "plugins/minimal/minimal.c",
            "tests/core/prefix_test.c"}


def unbuilt(left_out=(), **more):
    return list(layers.uncompiled_sources({**BASE, **more}, COMPILED - set(left_out)))


def idle_programs(*commands):
    return list(layers.unregistered_programs({"test_core_name"}, commands))


def idle_scripts(*commands):
    return list(layers.unregistered_scripts({"tests/cli/run_test.py": ""}, commands))


def needed(*symbols):
    return list(layers.missing_symbols(symbols))


# name, complaints, whether there must be any
TABLES = [
    ("all sources are built", unbuilt(), False),
    ("a test source is in no target", unbuilt(["tests/core/prefix_test.c"]), True),
    ("a product source is in no target", unbuilt(["host/src/fetch.c"]), True),
    ("an adapter's source is in no target", unbuilt(["host/adapters/torch/torch.c"]), True),
    ("a fuzz target is in no target", unbuilt(**{"fuzz/targets/table.c": ""}), True),
    ("a test program is in no test", idle_programs("/b/bin/test_core_prefix"), True),
    ("a test program is in a test", idle_programs("/b/bin/test_core_name"), False),
    ("a script is in no test", idle_scripts("/s/tests/cli/usage_test.py"), True),
    ("a script is in a test", idle_scripts("/s/tests/cli/run_test.py"), False),
    ("the core calls malloc", needed(("T", "f"), ("U", "malloc")), True),
    ("the core calls itself and memcpy", needed(("T", "f"), ("U", "f"), ("U", "memcpy")), False),
    ("the core has a variable", list(layers.mutable_symbols([("T", "f"), ("b", "count")])), True),
    ("the core has an initialised variable", list(layers.mutable_symbols([("D", "table")])), True),
    ("the core has constants", list(layers.mutable_symbols([("T", "f"), ("r", "table")])), False),
    ("a library exports a foreign name", list(layers.foreign_exports([("T", "nxmem_ok"), ("T", "helper")])), True),
    ("a library exports its own names", list(layers.foreign_exports([("A", "NXMEM_1"), ("T", "nxmem_ok")])), False),
]


def tree_rows():
    for name, rule, path, text, must in TREES:
        tree = {**BASE, path: BASE.get(path, "") + text}
        yield f"rule: {name}", [] if bool(list(rule(tree))) == must else ["complained" if not must else "stayed quiet"]
    for name, complaints, must in TABLES:
        yield f"rule: {name}", [] if bool(complaints) == must else complaints or ["stayed quiet"]


def write_tree(folder, tree):
    for path, text in tree.items():
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def run_check(tree):
    """Exit code and the red rows of the whole check over a tree on disk."""
    with tempfile.TemporaryDirectory() as folder:
        write_tree(folder, tree)
        command = [sys.executable, os.path.join(HERE, "check_layers.py"), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, [line for line in done.stdout.splitlines() if line.startswith("not ok")]


def whole_check_rows():
    """The program itself, on trees written to disk."""
    code, red = run_check(BASE)
    yield "check: a fine tree passes", [] if code == 0 and not red else red or [f"exit {code}"]
    code, red = run_check({**BASE, "abi/src/prefix.c": BASE["abi/src/prefix.c"] + '#include "fetch.h"\n'})
    named = any(row.endswith("abi includes nothing it must not see") for row in red)
    yield "check: a backward include fails", [] if code == 1 and named else [f"exit {code}: {red}"]
    code, red = run_check({**BASE, "abi/src/state.c": "extern int nx_state;\nint nx_state = 1;\n"})
    named = any("mutable" in row for row in red)
    yield "check: a global of the core fails", [] if code == 1 and named else [f"exit {code}: {red}"]


if __name__ == "__main__":
    sys.exit(check_layers.print_tap(list(tree_rows()) + list(whole_check_rows())))
