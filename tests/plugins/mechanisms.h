/*
 * mechanisms.h: rows about one mechanism of a scripted module each, and what they show.
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: a row opens its mechanism, shows what it commits, and pays the release; whatever a module lists has a row.
 */
#ifndef NXMEM_TESTS_MECHANISMS_H
#define NXMEM_TESTS_MECHANISMS_H

#include "recorder.h"

enum { ANY = 0, PLAIN = 1, STRUCTURED = 17, DEFERRED = 25, ALL = 31 };

/* An opened mechanism: with a recorder's callbacks, or with none. */
typedef struct scene {
  const plugin *p;
  const NxmemAllocatorVtable *table;
  recorder *r;
} scene;

typedef struct mechanism_row {
  const char *name;
  uint32_t struct_size; /* 0: no table to look at */
  uint32_t abi_minor;
  uint64_t flags;
  uint32_t readable_bytes; /* of 200; ANY: no guard behind it */
  int owes_release;        /* 1: opened, and one release pays it */
  void (*show)(const scene *s);
} mechanism_row;

/* A module's mechanisms, and that it lists no others. With callbacks: each is opened with a recorder. */
void add_mechanisms(const subject *module, const mechanism_row *rows, size_t count, int with_callbacks);

uint64_t counted(const scene *s, nx_probe what);

/* Allocate 100 bytes at 64. */
NxmemStatus ask(const scene *s, uint64_t id, NxmemAllocRequest *request, NxmemAllocResult *result);

/* An outcome as a host hands it over. */
NxmemReleaseOutcome unwritten(void);

void show_honest(const scene *s);
void show_lazy(const scene *s);
void show_legacy(const scene *s);
void show_poison(const scene *s);
void show_missing_slot(const scene *s);
void show_no_release_slot(const scene *s);
void show_no_mechanism(const scene *s);
void show_other_device(const scene *s);
void show_undeclared(const scene *s);
void show_null(const scene *s);
void show_wild(const scene *s);
void show_misaligned(const scene *s);
void show_stateless(const scene *s);
void show_refused_open(const scene *s);
void show_refused_allocate(const scene *s);
void show_null_address(const scene *s);
void show_misaligned_address(const scene *s);
void show_wrapping_address(const scene *s);
void show_huge(const scene *s);
void show_same_address(const scene *s);
void show_refused_deallocate(const scene *s);
void show_over_refund(const scene *s);
void show_quarantine(const scene *s);
void show_future(const scene *s);
void show_no_outcome(const scene *s);
void show_status_only(const scene *s);
void show_failed_first(const scene *s);
void show_eager(const scene *s);
void show_ahead_of_host(const scene *s);
void show_undeclared_slots(const scene *s);
void show_calls_host(const scene *s);
void show_callback_probe(const scene *s);
void show_after_drop(const scene *s);
void show_refused_enqueue(const scene *s);
void show_completion_inside_enqueue(const scene *s);
void show_drip(const scene *s);
void show_completion_inside_release(const scene *s);

#endif /* NXMEM_TESTS_MECHANISMS_H */
