/*
 * torchtest.h: each case of the adapter in a process of its own, since what it loads it never unloads.
 *
 * Attackers: none.
 * Promise: a case passes when its process ends with 0 and wrote exactly the lines on stderr that its row says, without those of the simulated driver.
 */
#ifndef TESTS_ADAPTERS_TORCHTEST_H
#define TESTS_ADAPTERS_TORCHTEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nxmem_torch.h"
#include "served.h"
#include "support.h"

/* Ends the case's process: cmocka's own would go on in it as the test program. */
#define CHECK(claim)                                                                              \
  do {                                                                                            \
    if (!(claim)) {                                                                               \
      printf("# %s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #claim, nxmem_torch_last_error()); \
      fflush(stdout);                                                                             \
      _exit(1);                                                                                   \
    }                                                                                             \
  } while (0)

typedef struct nx_torch_case {
  const char *name;
  void (*run)(void);
  int lines; /* on stderr */
} nx_torch_case;

/* A cmocka test whose *state is a nx_torch_case. */
void nx_torch_run(void **state);

/* The script of the test modules, told to them by the environment. */
extern nx_script nx_told;

/* A library of the build, by its full path. */
const char *nx_torch_library(const char *name);

/* Load a module of the build and choose its mechanism (NULL: none named). */
nxmem_result nx_torch_load(const char *library, const char *mechanism);
void nx_torch_must_load(const char *library, const char *mechanism);

nxmem_torch_counts nx_torch_now(void);

/* A stream: an address that nothing stands at. */
nxmem_torch_stream nx_torch_stream(uintptr_t number);

/* Memory that must be given; every byte is written. */
void *nx_torch_must_malloc(ssize_t size, int device, nxmem_torch_stream stream);

int nx_torch_said(const char *part);

/* Eight threads that allocate, and free each other's, on so many devices and streams; everything is given back at the end. */
void nx_torch_threads(unsigned devices, unsigned streams);

#endif /* TESTS_ADAPTERS_TORCHTEST_H */
