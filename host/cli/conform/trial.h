/*
 * trial.h: one rule tried on one plugin, inside a child process of its own.
 * Attackers: the plugin: it may crash, hang, exit, or write anywhere in the child.
 * Promise: a check returns (passed) or ends the child with a verdict; the parent believes a verdict only beside the
 * exit code that goes with it.
 */
#ifndef NXMEM_CONFORM_TRIAL_H
#define NXMEM_CONFORM_TRIAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "conform/rule.h"

enum { NX_FACTORIES = 64 };

/* Shared by parent and child. The plugin can reach it: the parent bounds and escapes what it reads. */
typedef struct nx_board {
  _Atomic uint64_t step_began_us; /* monotonic */
  char step[NX_STEP_BYTES];
  uint32_t ruling; /* meaningful when the child exits with NX_CHILD_RULED */
  char evidence[NX_EVIDENCE_BYTES];
  uint32_t target_count; /* of a look at the list of factories */
  nx_target targets[NX_FACTORIES];
} nx_board;

/* What no plugin exits with by chance. */
enum { NX_CHILD_RULED = 87 };

typedef NxmemStatus (*nx_negotiate_export)(const NxmemNegotiateRequest *, NxmemNegotiateResponse *);
typedef NxmemStatus (*nx_factories_export)(const NxmemAllocatorFactoryVtable **, uint64_t, uint64_t *);
typedef NxmemStatus (*nx_unload_export)(NxmemUnloadReport *);

typedef struct nx_trial {
  nx_board *board;
  const nx_rule *rule;
  const nx_target *target; /* NULL: the module */
  const char *path;
  uint32_t cycles; /* 0: rules about growth do not apply */
  void *module;    /* dlopen()'s; NULL: not loaded */
  nx_negotiate_export negotiate;
  nx_factories_export factories;
  nx_unload_export unload;
  uint32_t minor; /* agreed */
  uint64_t caps;  /* agreed */
  const NxmemAllocatorFactoryVtable *entries[NX_FACTORIES];
  uint64_t entry_count;
} nx_trial;

/* ---- What a check says ------------------------------------------------------------------------------------------ */

#define NX_PRINTF(at, first) __attribute__((format(printf, at, first)))

uint64_t nx_now_us(void);

/* Name the step that is being entered; restarts the clock. */
void nx_enter(const char *format, ...) NX_PRINTF(1, 2);

/* What was seen, for a check that passes. */
void nx_seen(const char *format, ...) NX_PRINTF(1, 2);

_Noreturn void nx_fails(const char *format, ...) NX_PRINTF(1, 2);
_Noreturn void nx_does_not_apply(const char *format, ...) NX_PRINTF(1, 2);

/* What this rule rests on did not hold; another rule says so. */
_Noreturn void nx_cannot_tell(const char *format, ...) NX_PRINTF(1, 2);

#define NX_EXPECT(condition, ...)            \
  do {                                       \
    if (!(condition)) nx_fails(__VA_ARGS__); \
  } while (0)

/* Something this rule does not judge must hold. */
#define NX_GIVEN(condition, ...)                   \
  do {                                             \
    if (!(condition)) nx_cannot_tell(__VA_ARGS__); \
  } while (0)

/* ---- Running (child.c) ------------------------------------------------------------------------------------------ */

/* In the child: the check, then the verdict; never returns. */
_Noreturn void nx_trial_run(nx_trial *trial);

#endif /* NXMEM_CONFORM_TRIAL_H */
