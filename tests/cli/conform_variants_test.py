#!/usr/bin/env python3
"""nxmem conform against the minimal plugin with one line spoiled: exactly the rules that the line keeps must fail.
Prints TAP.

A row is a name, replacements (each must match exactly once), and the rules that fail. Crashes, hangs and exits are
rows like any other: the run goes on behind them.
"""
import json
import os

import harness
from harness import Setting, compile_so, equal, main, nxmem, scratch, write

# How long a step may take where one hangs; elsewhere what a busy machine may take.
HANG_SECONDS = "5"
PATIENCE_SECONDS = "60"

# On a machine that does much else; a hang that nobody ends takes for ever.
harness.LIMIT_SECONDS = 90


def without(part):
    """A replacement that takes the line away in which this stands."""
    return (part, None)


ROWS = [
    # ---- The process --------------------------------------------------------------------------------------------
    ("exits in allocate",
     [("static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult "
      "*result_out) {\n",
      "static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult "
      "*result_out) {\n  exit(0);\n")], "NX-ALC-001"),
    ("exits in negotiate",
     [("static NxmemStatus decide(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *full) {\n",
      "static NxmemStatus decide(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *full) {\n"
      "  exit(0);\n")], "NX-NEG-001"),
    ("hangs in deallocate",
     [("  const uint32_t code = take_out(a, allocation, &b);\n",
      "  const uint32_t code = take_out(a, allocation, &b);\n  for (;;) give_way();\n")], "NX-DEA-001"),
    ("crashes in release",
     [("static void release(void *ctx) {\n  allocator *a = ctx;\n",
      "static void release(void *ctx) {\n  allocator *a = ctx;\n  *(volatile int *)0 = 1;\n")],
     "NX-OPN-005 NX-OPN-006 NX-OPN-007 NX-OPN-008 NX-OPN-009 NX-OPN-010 NX-OPN-011 NX-OPN-012 "
     "NX-OPN-013 NX-OPN-014 NX-OPN-016 NX-OPN-017 NX-ALC-012 NX-CBK-004 NX-CBK-005 NX-CBK-006"),
    ("answers as if it had ruled itself",
     [("static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult "
      "*result_out) {\n",
      "static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult "
      "*result_out) {\n  _Exit(87);\n")], "NX-ALC-001"),

    # ---- Module -------------------------------------------------------------------------------------------------
    ("leaks a mapping per load",
     [("  if (max_factories < 1u)",
      "  mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
      "  mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n  if (max_factories < 1u)")],
     "NX-MOD-007"),
    ("opens a file when it is loaded",
     [("/* ---- The three exports",
      "__attribute__((constructor)) static void begin(void) { open(\"/dev/null\", 0); }\n"
      "/* ---- The three exports")], "NX-MOD-007 NX-MOD-008"),

    # ---- Negotiation --------------------------------------------------------------------------------------------
    ("agrees on the host's minor",
     [("  const uint32_t best = host->minor_max < versions.minor_max ? host->minor_max : versions.minor_max;\n",
      "  const uint32_t best = host->minor_max;\n")], "NX-NEG-014 NX-NEG-018"),
    ("agrees whatever the major", [without("if (host->major_min > versions.")], "NX-NEG-016 NX-NEG-017"),
    ("offers what the host did not",
     [("  const uint64_t flags = CAPABILITIES & request->host_capability_flags;\n",
      "  const uint64_t flags = CAPABILITIES | 2u;\n")], "NX-NEG-010 NX-NEG-021"),
    ("reads a short request", [without("if (request->struct_size < NEGOTIATE_")], "NX-NEG-031"),
    ("trusts the request's pointer", [without("if (unusable(request)) ")],
     "NX-NEG-033 NX-NEG-035 NX-STA-001 NX-STA-002 NX-STA-003 NX-STA-004"),
    ("trusts the response's pointer", [without("if (unusable(response)")], "NX-NEG-034"),
    ("writes a whole response",
     [("  const uint32_t room = response->struct_size;\n", "  const uint32_t room = 40u;\n")], "NX-NEG-036"),
    ("reports no range when it refuses",
     [("  respond(response, full);\n", "  if (status.code == 0u) respond(response, full);\n")], "NX-NEG-022"),
    ("writes to the request",
     [("static NxmemStatus decide(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *full) {\n",
      "static NxmemStatus decide(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *full) {\n"
      "  if (request) ((NxmemNegotiateRequest *)(uintptr_t)request)->reserved = 1;\n")],
     "NX-NEG-031 NX-NEG-032 NX-NEG-039"),

    # ---- Enumeration and the unload report ----------------------------------------------------------------------
    ("needs no room", [without("if (max_factories < ")], "NX-ENU-006"),
    ("trusts the list's pointers", [without("if (unusable(out_factories) ")],
     "NX-ENU-008 NX-STA-001 NX-STA-002 NX-STA-003 NX-STA-004"),
    ("writes a whole report", [without("if (report_out->struct_")], "NX-UNL-006 NX-UNL-007"),
    ("counts no allocators",
     [("  atomic_fetch_add(&live_allocators, 1u);\n  *allocator_out", "  *allocator_out")], "NX-OPN-014"),
    ("forgets to count allocations down", [("  atomic_fetch_sub(&live_allocations, 1u);\n", "")], "NX-ALC-010"),

    # ---- Opening ------------------------------------------------------------------------------------------------
    ("opens for any device",
     [("  if (request->device.tier != device.tier || request->device.index != device.index)\n",
      "  if (0)\n")], "NX-OPN-004"),
    ("opens whatever is required",
     [("  if ((request->required_capability_flags & ~CAPABILITIES) != 0u)\n", "  if (0)\n")],
     "NX-OPN-005 NX-OPN-006"),
    ("reads a short open request", [without("if (request->struct_size < OPEN_")], "NX-OPN-001"),
    ("opens before it judges",
     [("  if (request->device.tier != device.tier || request->device.index != device.index)\n",
      "  atomic_fetch_add(&live_allocators, 1u);\n"
      "  if (request->device.tier != device.tier || request->device.index != device.index)\n"),
     ("  atomic_fetch_add(&live_allocators, 1u);\n  *allocator_out", "  *allocator_out")],
     "NX-OPN-004 NX-OPN-005 NX-OPN-006"),
    ("one allocator for all",
     [("  allocator *a = calloc(1u, sizeof *a);\n",
      "  static allocator only;\n  allocator *a = &only;\n  memset(a, 0, sizeof *a);\n"),
     ("    free(a);\n  }\n  atomic_fetch_sub(&live_allocators, 1u);",
      "  }\n  atomic_fetch_sub(&live_allocators, 1u);")], "NX-DEA-032 NX-OPN-014"),
    ("leaks an allocator", [("    free(a);\n  }\n  atomic_fetch_sub", "  }\n  atomic_fetch_sub")], "NX-GRO-001"),
    ("ignores retain", [("  if (a != NULL) atomic_fetch_add(&a->references, 1u);\n", "")], "NX-OPN-015"),
    ("counts references",
     [("  if (a != NULL) atomic_fetch_add(&a->references, 1u);\n",
      "  if (a != NULL) atomic_fetch_add(&a->references, 1u);\n  atomic_fetch_add(&live_allocators, 1u);\n")],
     "NX-OPN-015"),

    # ---- Allocation ---------------------------------------------------------------------------------------------
    ("aligns to 16 at most",
     [("  return aligned_alloc(align, bytes);\n", "  (void)align;\n  return malloc(bytes);\n")], "NX-ALC-003"),
    ("serves zero bytes", [without("if (request->bytes =")], "NX-ALC-020"),
    ("serves any alignment", [without("if (align == 0u || (")], "NX-ALC-022 NX-ALC-023 NX-ALC-024"),
    ("does not see a size wrap",
     [without("if (request->bytes > "),
     ("  return bytes > most - (align - 1u) ? 0u : (size_t)((bytes + (align - 1u)) & ~(align - 1u));\n",
      "  (void)most;\n  return (size_t)((bytes + (align - 1u)) & ~(align - 1u));\n")], ""),
    ("serves any mechanism", [("  if (mechanism_id != MECHANISM_ID)", "  if (0)")],
     "NX-ALC-029 NX-ALC-030 NX-DEA-023"),
    ("serves any device", [("  if (wanted.tier != device.tier || wanted.index != device.index)", "  if (0)")],
     "NX-ALC-031 NX-ALC-032 NX-DEA-024"),
    ("reads a short allocate request", [without("if (request->struct_size < ALLOC_")], "NX-ALC-033"),
    ("writes a whole result", [without("if (result->struct_size ")], "NX-ALC-035 NX-ALC-036"),
    ("trusts the allocate pointers", [without("if (unusable(request) ")], "NX-ALC-034"),
    ("takes a live id again", [("  if (find(p, b->id) == NULL) {\n", "  {\n")], "NX-ALC-039"),
    ("forgets the mapped bytes",
     [("{ALLOC_RESULT_BYTES, 0u, b->ptr, b->owned, b->owned}",
      "{ALLOC_RESULT_BYTES, 0u, b->ptr, b->owned, result_out->mapped_bytes}")], "NX-ALC-005"),
    ("gives blocks that overlap",
     [("  return aligned_alloc(align, bytes);\n",
      "  static _Alignas(65536) unsigned char memory[1 << 20];\n"
      "  return bytes < sizeof memory && align <= 65536 ? memory : NULL;\n"),
     ("  free(pointer);\n#endif", "  (void)pointer;\n#endif")], "NX-ALC-008"),
    ("dies without memory",
     [("  if (b->ptr != NULL) return b;\n", "  if (b->ptr == NULL) abort();\n  return b;\n")],
     "NX-ALC-028 NX-ALC-040 NX-CBK-001 NX-CBK-002 NX-CBK-003 NX-THR-004"),
    ("leaks what it cannot keep",
     [("  if (code != NXMEM_STATUS_OK) {\n    unmake_block(b);\n", "  if (code != NXMEM_STATUS_OK) {\n")],
     "NX-GRO-003"),

    # ---- Giving back --------------------------------------------------------------------------------------------
    ("gives back any address", [("b->ptr == (void *)wanted->ptr && ", "")], "NX-DEA-025 NX-DEA-026"),
    ("gives back any size", [("b->bytes == wanted->bytes && ", "")], "NX-DEA-027"),
    ("gives back any alignment", [(" && b->align == wanted->align", "")], "NX-DEA-028"),
    ("refunds too much", [("  *unmapped_bytes_out = b->owned;\n", "  *unmapped_bytes_out = b->owned + 1u;\n")],
     "NX-DEA-003"),
    ("reports no refund", [("  *unmapped_bytes_out = b->owned;\n", "")], "NX-DEA-002"),
    ("reads a short record", [without("if (allocation->struct_")], "NX-DEA-029"),
    ("trusts the deallocate pointers", [("unusable(allocation) || unusable(unmapped_bytes_out)", "0")],
     "NX-DEA-030"),
    ("says OK to a stranger",
     [("  if (code == NXMEM_STATUS_UNKNOWN_ALLOCATION) return answer(code, \"deallocate: id unknown or "
      "already released\");\n",
      "  if (code == NXMEM_STATUS_UNKNOWN_ALLOCATION) return ok();\n")],
     "NX-DEA-006 NX-DEA-021 NX-DEA-022 NX-DEA-031 NX-DEA-032"),
    ("leaks its records", [("  return_memory(b->ptr);\n  free(b);\n}", "  return_memory(b->ptr);\n}")],
     "NX-GRO-001 NX-GRO-002 NX-GRO-003"),
    ("frees live blocks with the allocator",
     [("  if (atomic_load(&a->blocks) == 0u) {\n",
      "  atomic_fetch_sub(&live_allocations, atomic_load(&a->blocks));\n"
      "  if (atomic_load(&a->blocks) == 0u) {\n")], "NX-ALC-012"),

    # ---- Statuses -----------------------------------------------------------------------------------------------
    ("answers a code that nobody defined",
     [("return answer(NXMEM_STATUS_WRONG_MECHANISM,", "return answer(99u,")],
     "NX-ALC-029 NX-ALC-030 NX-DEA-023 NX-STA-001"),
    ("says a length that is not its text's",
     [("  memcpy(status.message, text, status.message_len);\n",
      "  memcpy(status.message, text, status.message_len);\n  status.message_len += 3u;\n")], "NX-STA-002"),
    ("says what is no UTF-8",
     [("\"deallocate: id unknown or already released\"", "\"deallocate: \\xC3\\x28\"")], "NX-STA-003"),
    ("leaves stack bytes behind the text",
     [("  NxmemStatus status = {code, 0u, {0}};\n", "  NxmemStatus status;\n  status.code = code;\n"),
     ("  memcpy(status.message, text, status.message_len);\n",
      "  memcpy(status.message, text, status.message_len + 1u);\n")], "NX-STA-004"),

    # ---- Threads ------------------------------------------------------------------------------------------------
    ("counts without atomics",
     [("    atomic_fetch_add(&live_allocations, 1u);\n",
      "    const uint64_t was = atomic_load(&live_allocations);\n    give_way();\n"
      "    atomic_store(&live_allocations, was + 1u);\n")], "NX-THR-001"),
]


def without_line(source, part):
    at = source.index(part)
    return source[:source.rindex("\n", 0, at)] + source[source.index("\n", at):]


def spoiled(name, replacements):
    with open(Setting.minimal, encoding="utf-8") as file:
        source = file.read()
    for old, new in replacements:
        assert source.count(old) == 1, f"{old!r} is there {source.count(old)} times"
        source = source.replace(old, new) if new is not None else without_line(source, old)
    source = "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\n" + source
    path = write(name + ".c", source.encode())
    return compile_so(name, [os.fsdecode(path)], ["-I", Setting.include, "-w"])


def failed_rules(path, report, limit):
    nxmem("conform", path, "--timeout", limit, "--json", report)
    with open(report, encoding="utf-8") as file:
        return {row["rule"] for row in json.load(file)["verdicts"] if row["verdict"] == "fail"}


def row(number, spoils, replacements, expected):
    def case():
        name = f"variant{number}"
        limit = HANG_SECONDS if spoils.startswith("hangs") else PATIENCE_SECONDS
        found = failed_rules(spoiled(name, replacements), scratch(name + ".json"), limit)
        equal(" ".join(sorted(found)), " ".join(sorted(expected.split())))
    return case


if __name__ == "__main__":
    main(lambda: [(name, row(number, name, replacements, expected))
                  for number, (name, replacements, expected) in enumerate(ROWS)])
