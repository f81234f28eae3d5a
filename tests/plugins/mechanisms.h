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

/* The least honest mechanism; it stands beside the others in most modules. */
void show_eager(const scene *s);

#endif /* NXMEM_TESTS_MECHANISMS_H */
