/*
 * versions.c: versions of symbols that a file needs of its libraries, and those it defines.
 * Attackers: chains of records that lie about counts and offsets.
 * Promise: at most VERSIONS_MAX records are looked at, each inside a loaded segment.
 */
#include <inttypes.h>

#include "audit/facts.h"

/* The C library defines about forty. A chain could otherwise go round for ever. */
enum { VERSIONS_MAX = 4096 };

typedef struct chain {
  const nx_dynamic *dynamic;
  nx_problem *why;
  unsigned looked_at;
} chain;

static int take_record(chain *at, uint64_t address, void *out, size_t bytes) {
  if (at->looked_at++ < VERSIONS_MAX)
    return nx_elf_bytes(at->dynamic->file, address, out, bytes, "table of versions", at->why);
  return nx_refuse(at->why, "found more than %d versions of symbols, need fewer; this is no plugin, or it is damaged",
                   VERSIONS_MAX);
}

static void add(nx_audit_versions *versions, const nx_audit_version *version) {
  versions->items = nx_audit_grow(versions->items, &versions->room, versions->count, sizeof *versions->items);
  versions->items[versions->count++] = *version;
}

/* ---- Needed ------------------------------------------------------------------------------------------------------ */

static int read_needs_of(chain *at, uint64_t address, const Elf64_Verneed *head, nx_audit_facts *out) {
  nx_audit_version version = {.library = nx_dynamic_string(at->dynamic, head->vn_file, at->why)};
  Elf64_Vernaux need;
  address += head->vn_aux;
  for (unsigned i = 0; version.library && i < head->vn_cnt; i++) {
    if (take_record(at, address, &need, sizeof need)) return -1;
    version.name = nx_dynamic_string(at->dynamic, need.vna_name, at->why);
    if (!version.name) return -1;
    version.weak = (need.vna_flags & VER_FLG_WEAK) != 0;
    add(&out->needs, &version);
    if (need.vna_next == 0) break;
    address += need.vna_next;
  }
  return version.library ? 0 : -1;
}

static int read_needs(chain *at, nx_audit_facts *out) {
  uint64_t address = 0, count = 0;
  Elf64_Verneed head;
  if (!nx_dynamic_find(at->dynamic, DT_VERNEED, &address)) return 0;
  nx_dynamic_find(at->dynamic, DT_VERNEEDNUM, &count);
  for (uint64_t i = 0; i < count; i++) {
    if (take_record(at, address, &head, sizeof head) || read_needs_of(at, address, &head, out)) return -1;
    if (head.vn_next == 0) break;
    address += head.vn_next;
  }
  return 0;
}

/* ---- Defined ----------------------------------------------------------------------------------------------------- */

/* The first name of a definition is its own; those behind are its parents. */
static int read_definition(chain *at, uint64_t address, const Elf64_Verdef *head, nx_audit_facts *out) {
  Elf64_Verdaux own;
  nx_audit_version version = {0};
  if (head->vd_cnt == 0 || (head->vd_flags & VER_FLG_BASE)) return 0;
  if (take_record(at, address + head->vd_aux, &own, sizeof own)) return -1;
  version.name = nx_dynamic_string(at->dynamic, own.vda_name, at->why);
  if (!version.name) return -1;
  add(&out->defines, &version);
  return 0;
}

static int read_definitions(chain *at, nx_audit_facts *out) {
  uint64_t address = 0, count = 0;
  Elf64_Verdef head;
  if (!nx_dynamic_find(at->dynamic, DT_VERDEF, &address)) return 0;
  nx_dynamic_find(at->dynamic, DT_VERDEFNUM, &count);
  for (uint64_t i = 0; i < count; i++) {
    if (take_record(at, address, &head, sizeof head) || read_definition(at, address, &head, out)) return -1;
    if (head.vd_next == 0) break;
    address += head.vd_next;
  }
  return 0;
}

int nx_audit_read_versions(const nx_dynamic *dynamic, nx_audit_facts *out, nx_problem *why) {
  chain at = {dynamic, why, 0};
  return read_needs(&at, out) || read_definitions(&at, out) ? -1 : 0;
}
