/*
 * scripted_driver.h: a driver on real pages that keeps count of every object, enforces the rules of driver.h, and fails on schedule.
 *
 * Attackers played: a driver that fails at the k-th call of any kind, once or for good; work that does not end; a context that cannot be reached.
 * Promise: what it was not told to fail it does; a call that no driver may be given is written down as a breach.
 */
#ifndef TESTS_VMM_SCRIPTED_DRIVER_H
#define TESTS_VMM_SCRIPTED_DRIVER_H

#include "driver.h"

typedef enum nx_call {
  NX_CALL_DESCRIBE,
  NX_CALL_BIND,
  NX_CALL_UNBIND,
  NX_CALL_RESERVE,
  NX_CALL_UNRESERVE,
  NX_CALL_CREATE,
  NX_CALL_DESTROY,
  NX_CALL_MAP,
  NX_CALL_UNMAP,
  NX_CALL_SET_ACCESS,
  NX_CALL_MARK,
  NX_CALL_MARK_STATE,
  NX_CALL_DROP_MARK,
  NX_CALLS
} nx_call;

extern const char *const nx_call_names[NX_CALLS];

/* What is told to the driver. Faults count from nx_script_arm() on. */
typedef struct nx_script {
  uint64_t minimum, recommended, memory_bytes; /* what describe says */
  uint64_t reserve_limit;                      /* reservations above are refused; 0: none */
  int read_only_refused;                       /* set_access refuses READ_ONLY */
  int pending;                                 /* marks are not passed */
  int unbound;                                 /* bind answers UNBOUND */
  nx_call call;                                /* with `at` not 0: the at-th call of that kind from arming on */
  uint64_t at;
  uint32_t outcome;
  int for_good; /* and every later one */
  nx_call also_call;
  uint64_t also_at;
  uint32_t also_outcome;
  int then; /* 1: a fault of then_call is due behind the scheduled one */
  nx_call then_call;
  uint32_t then_outcome;
  void (*hook)(nx_call call); /* inside each call, before it does anything */
} nx_script;

/* What the driver counts. */
typedef struct nx_tally {
  uint64_t calls[NX_CALLS];                                 /* since the last arming */
  uint64_t handles, mappings, marks, reservations, drivers; /* that exist */
  uint64_t fired;
  uint64_t breaches;
  char breach[160]; /* the first */
  int lost, shut_down;
} nx_tally;

extern nx_script nx_the_script;
extern nx_tally nx_the_tally;
extern nx_vmm_offer nx_the_offer;

/* As at the start: 64 KiB granules, nothing fails. The counts of objects stay what they are. */
void nx_script_reset(void);
/* The at-th call of a kind answers that; counting begins anew. */
void nx_script_arm(nx_call call, uint64_t at, uint32_t outcome, int for_good);
/* And one call more that fails once. */
void nx_script_also(nx_call call, uint64_t at, uint32_t outcome);
/* Once the scheduled fault has come, the next call of that kind fails too. */
void nx_script_then(nx_call call, uint32_t outcome);
void nx_script_disarm(void);

/* Objects of drivers that were lost are the dead device's: nobody gives them back. */
void nx_tally_bury(void);

#endif /* TESTS_VMM_SCRIPTED_DRIVER_H */
