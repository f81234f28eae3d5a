/*
 * mechanisms.c: rows about one mechanism of a scripted module each.
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: a row opens its mechanism, shows what it commits, and pays the release; whatever a module lists has a row.
 */
#include "mechanisms.h"

#include <stdlib.h>
#include <string.h>

uint64_t counted(const scene *s, nx_probe what) { return s->p->probe(what); }

static void assert_declares(const mechanism_row *row, const NxmemAllocatorVtable *table) {
  assert_int_equal(table->struct_size, row->struct_size);
  assert_int_equal(table->abi_minor, row->abi_minor);
  assert_int_equal(table->capability_flags, row->flags);
  assert_string_equal((const char *)table->name, row->name);
  if (row->readable_bytes != ANY) assert_int_equal(readable(table, 200u), row->readable_bytes);
}

static void run_mechanism(const plugin *p, const mechanism_row *row, recorder *r) {
  NxmemOpenRequest request = open_request(p);
  const NxmemAllocatorVtable *table = NULL;
  if (r != NULL) recorder_start(r);
  if (r != NULL) request.callbacks = &r->callbacks;
  assert_status(p->factory->open_allocator(p->factory->ctx, &request, &table), NXMEM_STATUS_OK);
  assert_int_equal(p->probe(NX_PROBE_ALLOCATORS_OPENED), row->owes_release);
  if (row->struct_size != 0u) assert_declares(row, table);
  if (r != NULL) r->table = table;
  const scene shown = {p, table, r};
  row->show(&shown);
  if (row->owes_release) table->release(table->ctx);
  assert_int_equal(p->probe(NX_PROBE_ALLOCATORS_OPENED), p->probe(NX_PROBE_ALLOCATORS_RELEASED));
}

static void run(const subject *s, const mechanism_row *row, recorder *r) {
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, row->name);
  run_mechanism(&p, row, r);
  plugin_close(&p);
}

static void run_mute(const subject *s, const void *row) { run(s, row, NULL); }

static void run_heard(const subject *s, const void *row) {
  static recorder r;
  run(s, row, &r);
}

/* ---- Every mechanism has a row ---------------------------------------------------------------------------------- */

typedef struct list_row {
  const char *name;
  const mechanism_row *rows;
  size_t count;
} list_row;

static int has_row(const list_row *list, const uint8_t *name) {
  for (size_t i = 0u; i < list->count; i++)
    if (strcmp((const char *)name, list->rows[i].name) == 0) return 1;
  return 0;
}

static void run_list(const subject *s, const void *data) {
  const list_row *list = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, list->rows[0].name);
  for (uint64_t i = 0u; i < p.listed; i++)
    if (!has_row(list, p.list[i]->name)) fail_msg("%s has no row", (const char *)p.list[i]->name);
  assert_int_equal(p.listed, list->count);
  plugin_close(&p);
}

void add_mechanisms(const subject *module, const mechanism_row *rows, size_t count, int with_callbacks) {
  static list_row lists[4];
  static size_t modules;
  if (modules == sizeof lists / sizeof lists[0]) abort();
  for (size_t i = 0u; i < count; i++) {
    if (rows[i].show == NULL) continue; /* has a case of its own */
    add_case(module, "mechanism", &rows[i], with_callbacks ? run_heard : run_mute);
  }
  lists[modules] = (list_row){"every mechanism has a row here", rows, count};
  add_case(module, "module", &lists[modules++], run_list);
}
