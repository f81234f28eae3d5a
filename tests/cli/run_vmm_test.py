#!/usr/bin/env python3
"""nxmem run on the shipped virtual-memory plugins: host memory, and CUDA on the simulated driver. Prints TAP."""
import os

from harness import Setting, document, environment, equal, fits_a_terminal, main, nxmem, plugin, write

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
WALK = ["vm_reserve", "vm_commit", "vm_commit", "vm_commit", "vm_decommit", "vm_decommit", "vm_share", "vm_unshare",
        "vm_queue", "vm_drain"]
SHARING = {"vm_share", "vm_unshare"}
# Granules mapped after each step, where the prefix is one granule: three first granules, three views, the owner's own.
MAPPED = [1, 2, 10, 11, 7, 1, 8, 1, 1, 0]
# What is mapped into allocations: all but the owner's own.
COMMITTED = [1, 2, 10, 11, 7, 1, 7, 1, 1, 0]


def simulator():
    return os.path.join(os.path.dirname(Setting.plugins), "fakecuda")


def run(name, *args, code=0, schedule="", driver=None):
    env = environment()
    env["LD_LIBRARY_PATH"] = driver or simulator()
    env["FAKECUDA_SCHEDULE"] = schedule
    return document(nxmem("run", "--json", "--blocks", "4", *args, plugin(name), env=env), code)


def steps(found, name, mechanism=None):
    return [row for row in found["steps"] if row["name"] == name and mechanism in (None, row.get("mechanism"))]


def walk(found, mechanism):
    return [row for row in found["steps"] if row["name"].startswith("vm_") and row["mechanism"] == mechanism]


def after(row, key):
    return row["statistics"]["after"][key]


def walked(found, mechanism, granule, names):
    """Every figure of a walk in which nothing goes wrong."""
    rows = walk(found, mechanism)
    equal([(row["name"], row["verdict"]) for row in rows], [(name, "ok") for name in names])
    for key, counts, each in (("granules_mapped", MAPPED, 1), ("committed_bytes", COMMITTED, granule)):
        equal([after(row, key) for row in rows], [count * each for name, count in zip(WALK, counts) if name in names])
    equal({after(row, "granule_bytes") for row in rows}, {granule})
    for row in rows:
        equal(after(row, "maps") - after(row, "unmaps"), after(row, "granules_mapped"))
        equal([after(row, key) for key in ("quarantined_bytes", "poisoned_granules", "refcount_underflows")], [0, 0, 0])
        assert after(row, "reserved_bytes") >= TIB and after(row, "pool_bytes") <= 256 * MIB, row
        assert after(row, "peak_committed_bytes") >= after(row, "committed_bytes"), row
    assert after(rows[-1], "peak_committed_bytes") >= 11 * granule, rows[-1]


def ends_well(found):
    equal((found["result"], found["unmapped"]), ("ok", True))
    books = steps(found, "books")[0]
    equal([books[key] for key in ("quarantined", "contract_violations", "unpaid_debts", "forced_leaks")], [0, 0, 0, 0])


def host_memory():
    found = run("hostvmm")
    ends_well(found)
    walked(found, "hostvmm", steps(found, "backing")[0]["granule"], WALK)
    equal(steps(found, "touch")[0]["bytes_written_and_read_back"], 4 * 4096)


def older_host():
    found = run("hostvmm", "--minor", "0")
    ends_well(found)
    equal(steps(found, "release")[0]["through"], "deallocate")
    walked(found, "hostvmm", steps(found, "backing")[0]["granule"], WALK)


def cuda():
    found = run("cudavmm")
    ends_well(found)
    walked(found, "cuda-vmm", 2 * MIB, [name for name in WALK if name not in SHARING])
    walked(found, "cuda-vmm-shared", 2 * MIB, WALK)
    equal(steps(found, "virtual", "cuda-vmm")[0]["not_offered"], ["shared-mapping"])
    equal([row["bytes_written_and_read_back"] for row in steps(found, "touch")], [0, 0])


def two_devices():
    found = run("cudavmm", "-m", "cuda-vmm", schedule="devices=2")
    ends_well(found)
    equal([row["device"] for row in steps(found, "allocator")], ["device:0", "device:1"])
    equal(len(walk(found, "cuda-vmm")), 2 * (len(WALK) - len(SHARING)))


def other_granule():
    found = run("cudavmm", "-m", "cuda-vmm", schedule="granularity=65536/131072")
    ends_well(found)
    walked(found, "cuda-vmm", 131072, [name for name in WALK if name not in SHARING])


def less_address_space():
    found = run("cudavmm", "-m", "cuda-vmm", schedule=f"reserve-max={128 * GIB}")
    ends_well(found)
    row = steps(found, "vm_reserve")[0]
    equal((row["verdict"], row["asked"]), ("note", TIB))
    assert 32 * GIB <= row["reserved"] <= 128 * GIB, row
    equal(after(row, "reserved_bytes"), 128 * GIB)


def terabyte_and_no_more():
    """Half of it, where sharing needs some of the rest."""
    found = run("cudavmm", schedule=f"reserve-max={TIB}")
    ends_well(found)
    equal([row["reserved"] for row in steps(found, "vm_reserve")], [TIB, TIB // 2])
    equal(steps(found, "vm_share")[0]["outcome"], "shared")


def events_that_never_come():
    """What is queued stays queued, nothing waits, and the module stays."""
    found = run("cudavmm", "-m", "cuda-vmm", schedule="delay-events", code=1)
    row = steps(found, "vm_drain")[0]
    equal((row["verdict"], row["drains"], row["still_queued"]), ("warning", 16, 2))
    equal(after(row, "granules_mapped") > 0, True)
    equal((steps(found, "unload")[0]["result"], found["unmapped"]), ("busy", False))


def no_driver():
    folder = os.path.dirname(os.fsdecode(write("libcuda.so.1", b"no library\n")))
    found = run("cudavmm", code=1, driver=folder)
    equal([(row["verdict"], row["result"]) for row in steps(found, "allocator")], [("refused", "plugin-error")] * 2)
    equal((steps(found, "unload")[0]["result"], found["unmapped"]), ("ok", True))


def no_virtual_memory():
    found = run("cudavmm", "-m", "cuda-vmm", code=1, schedule="no-vmm")
    row = steps(found, "allocator")[0]
    equal((row["verdict"], row["error"]["plugin_status"]), ("refused", "UNSUPPORTED_CAPABILITY"))
    equal(found["unmapped"], True)


def lines_fit_a_terminal():
    done = nxmem("run", "--blocks", "1", plugin("hostvmm"))
    equal(done.returncode, 0)
    lines = fits_a_terminal(done.stdout).splitlines()
    table = [line for line in lines if line.split()[:1] == ["statistics"] or line.split()[:1] == ["vm_drain"]]
    equal(len(table), 2)
    equal([len(line) <= 120 for line in table], [True, True])


def make_rows():
    return [("host memory", host_memory),
            ("host memory, an older host", older_host),
            ("CUDA", cuda),
            ("CUDA, two devices", two_devices),
            ("CUDA, another granule", other_granule),
            ("CUDA, less address space", less_address_space),
            ("CUDA, a terabyte and no more", terabyte_and_no_more),
            ("CUDA, events that never come", events_that_never_come),
            ("CUDA without a driver", no_driver),
            ("CUDA without virtual memory", no_virtual_memory),
            ("a table among the lines", lines_fit_a_terminal)]


if __name__ == "__main__":
    main(make_rows)
