/*
 * fakecuda.h: what a test asks of the simulated CUDA driver beside the driver's own entry points; found with dlsym in libcuda.so.1.
 *
 * Attackers: none; the plugin under test does not know that these are there.
 * Promise: every function is safe from any thread; none counts as a call of the driver.
 *
 * The schedule is a list of items, separated by semicolons, in FAKECUDA_SCHEDULE or given to fakecuda_schedule():
 *
 *   fail=CALL:N:CODE[:sticky]  the N-th call of that name from here on fails with that code (1 is the next; N+ is every one from the N-th);
 *                              sticky: and so does every later call that needs the device's context. CODE is a number.
 *   devices=K                  how many devices there are (1 at first, at most 32)
 *   memory=BYTES               of each device (32 GiB at first)
 *   granularity=MIN[/REC]      2 MiB at first
 *   reserve-max=BYTES          larger reservations are out of memory
 *   version=N                  of the driver (12040 at first)
 *   missing=CALL               cuGetProcAddress does not know it
 *   no-vmm                     devices without virtual memory management
 *   rdma, rdma-refused         devices say that they know the flag; and refuse a handle that has it
 *   no-read-only               read-only access is refused
 *   delay-events               events stay pending until fakecuda_complete()
 *   capture                    begin as if a graph were captured
 *   no-capture, no-delay       the ends of the two above
 *   end                        the driver shuts down with the process: every call from here on is DEINITIALIZED
 *   reset                      forget faults and settings; objects and counts stay
 *   log=FILE                   every call as it comes: thread, name, two numbers, what it answered
 *   report=FILE                a JSON object, when the process ends
 *   leaks=exit                 the process ends with 97 where something was not given back or a scheduled fault never fired
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stdint.h>

/* What the driver holds now, and what went wrong so far. */
typedef struct fakecuda_counts {
  uint64_t reservations;
  uint64_t reserved_bytes;
  uint64_t handles; /* created and not released */
  uint64_t handle_bytes;
  uint64_t mappings;
  uint64_t mapped_bytes;
  uint64_t physical_bytes; /* of handles that are held or mapped */
  uint64_t events;
  uint64_t streams;
  uint64_t retained;         /* primary contexts, each as often as it was retained */
  uint64_t calls;            /* of the driver, in all */
  uint64_t rule_refusals;    /* calls that broke a rule of the driver */
  uint64_t capture_breaks;   /* calls that ended a capture */
  uint64_t calls_after_loss; /* of the destructive kind, on a device with a sticky error */
  uint64_t calls_after_end;  /* behind the first answer of DEINITIALIZED */
  uint64_t faults_pending;   /* scheduled and not fired */
  uint64_t faults_fired;
  uint64_t lost_devices;
  uint64_t ended;         /* 1: DEINITIALIZED */
  uint64_t context_depth; /* of the calling thread's stack */
} fakecuda_counts;

typedef struct fakecuda_entry {
  const char *call;
  uint64_t thread; /* numbered from 1 */
  uint64_t a, b;   /* the first two numbers of the call: an address and its bytes, a handle */
  uint32_t code;   /* what it answered */
} fakecuda_entry;

typedef void fakecuda_count_fn(fakecuda_counts *out);

/* 0, or the number of the item (from 1) that is none. Adds to what is scheduled. */
typedef int fakecuda_schedule_fn(const char *text);

/* Calls of that name since the log was cleared, whatever they answered; NULL: of all names. */
typedef uint64_t fakecuda_calls_fn(const char *name);
/* The i-th call since the log was cleared; 0 where there is none, or it is older than the latest 32,768. */
typedef int fakecuda_log_fn(uint64_t index, fakecuda_entry *out);
typedef void fakecuda_clear_log_fn(void);

/* Complete up to that many pending events, oldest first; how many there were. */
typedef uint64_t fakecuda_complete_fn(uint64_t count);

/*
 * What a kernel of that device does when it stores a byte there. Where the address is not mapped for writing it is an illegal address, sticky. 0 or a
 * CUresult.
 */
typedef uint32_t fakecuda_store_fn(int device, uint64_t address, uint8_t value);

/* How many bytes of that range are mapped. */
typedef uint64_t fakecuda_mapped_fn(uint64_t address, uint64_t bytes);

/* Every name that the simulator counts, in no order; NULL behind the last. */
typedef const char *fakecuda_name_fn(uint32_t index);

/* fakecuda_count, fakecuda_schedule, fakecuda_calls, fakecuda_log, fakecuda_clear_log, fakecuda_complete, fakecuda_store, fakecuda_mapped,
 * fakecuda_name. */

#endif /* FAKECUDA_H */
