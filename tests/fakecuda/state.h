/*
 * state.h: what the simulated driver holds, shared between its files.
 *
 * Attackers: the plugin under test, which may call anything with anything.
 * Promise: everything here is touched with fc.lock held, which fc_enter() takes and fc_leave() gives back.
 */
#ifndef FAKECUDA_STATE_H
#define FAKECUDA_STATE_H

#include <pthread.h>
#include <stdint.h>

#include "cuda_api.h"
#include "fakecuda.h"

#define FC_PUBLIC __attribute__((visibility("default")))

/* Entry points that tests and kernels of tests/gpu use and the plugin does not. */
#define FC_MORE_CALLS(X)                                                                                  \
  X(cuDeviceGetName, (char *name_out, int room, nx_cuda_device device))                                   \
  X(cuCtxGetCurrent, (nx_cuda_context * context_out))                                                     \
  X(cuCtxSynchronize, (void))                                                                             \
  X(cuStreamCreate, (nx_cuda_stream * stream_out, unsigned int flags))                                    \
  X(cuStreamDestroy, (nx_cuda_stream stream))                                                             \
  X(cuStreamBeginCapture, (nx_cuda_stream stream, unsigned int mode))                                     \
  X(cuStreamEndCapture, (nx_cuda_stream stream, void **graph_out))                                        \
  X(cuGraphDestroy, (void *graph))                                                                        \
  X(cuMemcpyHtoD, (nx_cuda_ptr to, const void *from, size_t bytes))                                       \
  X(cuMemcpyDtoH, (void *to, nx_cuda_ptr from, size_t bytes))                                             \
  X(cuModuleLoadData, (void **module_out, const void *image))                                             \
  X(cuModuleUnload, (void *module))                                                                       \
  X(cuModuleGetFunction, (void **function_out, void *module, const char *name))                           \
  X(cuLaunchKernel,                                                                                       \
    (void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, \
     unsigned int bz, unsigned int shared, nx_cuda_stream stream, void **parameters, void **extra))

#define FC_CALLS(X) NX_CUDA_CALLS(X) FC_MORE_CALLS(X)

#define FC_ID(name, parameters) FC_##name,
typedef enum fc_id { FC_CALLS(FC_ID) FC_cuGetProcAddress, FC_IDS } fc_id;
#undef FC_ID

#define FC_PROTOTYPE(name, parameters) FC_PUBLIC nx_cuda_result name parameters;
FC_CALLS(FC_PROTOTYPE)
#undef FC_PROTOTYPE

enum { FC_DEVICES = 32, FC_FAULTS = 64, FC_DEPTH = 16, FC_LOG = 1 << 15 };

/* What a call needs before it may do anything. */
enum {
  FC_NEEDS_INIT = 1,
  FC_NEEDS_CONTEXT = 2, /* implies a living one */
  FC_SYNCHRONISES = 4,  /* ends a capture */
  FC_DESTROYS = 8       /* must not come behind a sticky error */
};

typedef struct fc_fault {
  fc_id call;
  uint64_t left; /* calls of that name until it fires; 0: fired, or fires on each */
  uint32_t code;
  int sticky;
  int repeats;
  uint64_t fired;
} fc_fault;

struct CUctx_st {
  int device;
  uint64_t retained;
  uint32_t lost; /* the sticky code, or 0 */
};

struct CUstream_st {
  struct CUstream_st *next;
  int device;
  int capturing;
};

struct CUevent_st {
  struct CUevent_st *next;
  int device;
  int recorded;
  uint64_t pending; /* its number in the order of recording, or 0 */
};

typedef struct fc_handle {
  uint64_t id;
  uint64_t offset; /* in the device's memfd */
  uint64_t bytes;
  uint64_t mappings;
  int device;
  int held; /* created and not released */
} fc_handle;

typedef struct fc_span { /* a reservation or a mapping: two of them never overlap */
  uint64_t address;
  uint64_t bytes;
  fc_handle *handle; /* of a mapping */
  unsigned access;
} fc_span;

typedef struct fc_settings {
  int devices;
  uint64_t memory;
  uint64_t granularity_minimum, granularity_recommended;
  uint64_t reserve_max;
  int version;
  int no_vmm, rdma, rdma_refused, no_read_only, delay_events, capture, leaks_exit;
  int missing[FC_IDS];
  char log_path[256], report_path[256];
} fc_settings;

typedef struct fc_state {
  pthread_mutex_t lock;
  int pid;
  int initialised;
  fc_settings set;
  fc_fault faults[FC_FAULTS];
  uint32_t fault_count;
  struct CUctx_st contexts[FC_DEVICES];
  struct CUstream_st *streams;
  struct CUevent_st *events;
  void *reservations, *mappings, *handles; /* trees of search.h */
  int memory_fd[FC_DEVICES];
  uint64_t memory_end[FC_DEVICES]; /* next unused offset of the memfd */
  uint64_t memory_used[FC_DEVICES];
  uint64_t next_handle, next_record, next_thread;
  fakecuda_counts counts;
  fakecuda_entry log[FC_LOG];   /* the latest */
  uint64_t log_count, log_from; /* calls in all, and when the log was cleared */
  uint64_t calls[FC_IDS];       /* since then */
  void *log_file;               /* a FILE, where all of them go */
} fc_state;

extern fc_state fc;
extern const char *const fc_names[FC_IDS + 1];

/* One call of the driver, from fc_enter to fc_leave. */
typedef struct fc_call {
  fc_id id;
  uint64_t a, b;
  uint32_t code;            /* not 0 behind fc_enter: the call must do nothing */
  struct CUctx_st *context; /* the thread's current one, or NULL */
} fc_call;

/* call.c */
fc_call fc_enter(fc_id id, int needs, uint64_t a, uint64_t b);
/* `code` where fc_enter let the call through, and its own code where not. */
nx_cuda_result fc_leave(const fc_call *call, nx_cuda_result code);
/* A rule of the driver was broken. */
nx_cuda_result fc_refuse(nx_cuda_result code);
void fc_lose(struct CUctx_st *context, uint32_t code);
int fc_id_of(const char *name, uint64_t length); /* -1: none */

/* context.c */
struct CUctx_st *fc_current(void);
uint64_t fc_depth(void);
void fc_drop_of_context(int device);

/* memory.c */
fc_span *fc_span_at(void **tree, uint64_t address, uint64_t bytes);
int fc_compare_handles(const void *a, const void *b);

/* physical.c */
int fc_physical_take(fc_handle *handle);
void fc_physical_drop(fc_handle *handle); /* where it is neither held nor mapped */

/* schedule.c */
void fc_defaults(fc_settings *set);
int fc_schedule(const char *text);

#endif /* FAKECUDA_STATE_H */
