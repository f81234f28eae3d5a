/*
 * vmm.h: the virtual-memory engine, driven by opcodes through the tables that a host has, over a driver that fails on schedule; and the books beside it.
 * Attackers: the input, which is host and driver at once.
 * Promise: the model shares no code with engine or core; after each step it agrees with the engine's figures and with the driver's own books.
 *
 * An input is 16 bytes of header, then records of 16 bytes. A record is an operation; while the engine is inside a call of the host, the records that follow are
 * operations from there. What the driver answers is scheduled by operations too (OP_FAIL, OP_PASS).
 *
 * The driver writes down what was called, section by section: bind to unbind. The model reads a section after the call and books what must follow from it: what a
 * failed call excuses is kept back, and nothing else is.
 */
#ifndef NXMEM_FUZZ_VMM_H
#define NXMEM_FUZZ_VMM_H

#include "driver.h"
#include "harness.h"
#include "nxmem_memory_abi.h"

enum {
  VM_RECORD = 16,
  VM_STEPS = 160,
  VM_DEPTH = 3,
  VM_OFFERS = 3,
  VM_DEVICES = 2,
  VM_DRIVERS = 6,                     /* opened by one input, ever: each has pages of its own */
  VM_SLOTS = VM_DRIVERS + VM_DEVICES, /* and at its end one for each device */
  VM_BLOCKS = 72,                     /* more than the engine's table has chains at first */
  VM_PREFIXES = 6,
  VM_VIEWS = 4, /* of one block */
  VM_GRANULES = 64,
  VM_HANDLES = 160,
  VM_MARKS = 256, /* each step may make one of each driver */
  VM_RULES = 4,
  VM_SECTIONS = 64,
  VM_UNIT = 256,
  VM_ARENA_BYTES = 1 << 20,
  VM_UNITS = VM_ARENA_BYTES / VM_UNIT
};

/* ---- The input ------------------------------------------------------------------------------------------------------ */

typedef struct vm_record {
  uint8_t op, a, b, c, d;
  uint32_t x;
  uint64_t y;
} vm_record;

typedef struct vm_header {
  uint8_t flags;    /* VM_MARKS_PASS, VM_RAW_GRANULE */
  uint8_t granule;  /* low bits: how large; the next: how minimum and recommended stand to each other */
  uint8_t arena;    /* granules, and how far the ladder goes down */
  uint8_t pool;     /* granules */
  uint8_t stripped; /* capabilities that are not offered */
  uint8_t refused;  /* rungs that the driver refuses */
  uint8_t unused[2];
  uint64_t raw; /* the granularity, where VM_RAW_GRANULE; and the device's memory */
} vm_header;

enum { VM_MARKS_PASS = 1, VM_RAW_GRANULE = 2, VM_RAW_RECOMMENDED = 4 };

/* ---- The driver: what it holds, and what it was asked ---------------------------------------------------------------- */

typedef enum vm_call {
  CALL_OPEN,
  CALL_DESCRIBE,
  CALL_BIND,
  CALL_UNBIND,
  CALL_RESERVE,
  CALL_UNRESERVE,
  CALL_CREATE,
  CALL_DESTROY,
  CALL_MAP,
  CALL_UNMAP,
  CALL_ACCESS,
  CALL_MARK,
  CALL_STATE,
  CALL_DROP,
  VM_CALLS
} vm_call;

typedef struct vm_rule {
  uint32_t left; /* calls until it fires; 0: not armed */
  uint32_t times;
  uint8_t call, outcome, odd; /* odd: of a reservation that succeeds, the address is one that none may be */
} vm_rule;

/* What happened between bind and unbind. */
typedef struct vm_section {
  uint32_t bind;   /* nx_vmm_outcome */
  uint32_t failed; /* the first of create, map and access that was not DONE; DONE: none */
  uint32_t creates, create_fails, maps, map_fails, destroyed, refused; /* refused: destroys but for SHUT_DOWN */
  uint64_t mapped, unmapped, unmap_failed; /* granules; unmapped also where the driver shut down over it */
  uint32_t marks, mark_outcome, states, state_outcome, drops, drop_fails, drop_lost, reserves, unreserves,
      unreserve_fails;
  int lost, shut;              /* before unbind: no call came behind it */
  int end_lost, end_shut;      /* at unbind */
  uint32_t writable, readable; /* set_access that succeeded */
} vm_section;

typedef struct vm_handle {
  uint8_t exists, refused;
  uint16_t mapped;
} vm_handle;

typedef struct vm_driver {
  int open, bound, shut, closed;
  uint32_t device, offer, slot;
  uint64_t base, bytes; /* the reservation; bytes 0: none */
  uint64_t reserved;    /* as it was made */
  uint64_t granule;
  nx_vmm_device said;
  uint32_t describe_outcome;
  uint64_t rung;                       /* the last that was asked for; 0: none */
  uint64_t mapped, writable, readable; /* granules */
  uint16_t at[VM_GRANULES];            /* handle of each */
  vm_handle handles[VM_HANDLES];
  uint32_t handle_count, mapped_count;
  uint8_t marks[VM_MARKS]; /* 1: made, 2: passed, 3: dropped */
  uint32_t mark_count, marks_open;
  vm_section sections[VM_SECTIONS];
  uint32_t section_count, section_next;
} vm_driver;

/* ---- The model ------------------------------------------------------------------------------------------------------- */

typedef enum vm_life { VM_NONE, VM_OPEN, VM_RELEASED } vm_life;

typedef struct vm_engine {
  vm_life life;
  vm_driver *driver;
  uint32_t offer, device;
  const NxmemAllocatorVtable *table;
  NxmemHostCallbacks callbacks;
  uint64_t caps, granule, base, bytes;
  uint32_t granules;
  uint32_t references, inside; /* the host's; calls that hold one of their own */
  int retained, draining, shut;
  uint64_t mapped, poisoned, owned, shared; /* granules: any mapping; for good; a prefix's own; a view */
  uint64_t pool, pool_bound, orphans, lost_marks, residues, queued;
  uint64_t next_sequence;
  uint8_t units[VM_UNITS]; /* 0: free, 1: taken, 2: never again */
} vm_engine;

typedef struct vm_view {
  uint32_t prefix;
  uint64_t granules;
} vm_view;

typedef enum vm_block_state { VM_BLOCK_NONE, VM_BLOCK_LIVE, VM_BLOCK_QUEUED } vm_block_state;

typedef struct vm_block {
  vm_block_state state;
  vm_engine *engine;
  NxmemAllocation name;
  uint64_t first, span; /* address; bytes set aside */
  uint64_t refs;        /* granules in which it has a committed byte */
  uint64_t mapped, kept;
  vm_view views[VM_VIEWS];
  uint32_t view_count, counted_views;
  uint64_t ticket, sequence;
  uint32_t mark;
  uint64_t tagged; /* granules in which its tags stand */
} vm_block;

typedef struct vm_prefix {
  int there; /* it has a handle or a view */
  vm_engine *engine;
  NxmemSharedPrefixHandle handle;
  uint64_t owner; /* granules */
  uint32_t first, count;
  uint64_t handles, views;
  uint64_t kept; /* of its granules, by number from 0: mapped somewhere for good */
  int charged;
  uint16_t at[VM_GRANULES];
} vm_prefix;

/* What was tried of an allocation, a commit, a prefix. */
typedef struct vm_try {
  uint32_t status;
  uint64_t mapped;                    /* bytes */
  uint64_t lost_granules, lost_bytes; /* what could not be undone */
  uint64_t left;                      /* which: mapped still */
} vm_try;

/* A call of the engine that may come back to the host. */
typedef enum vm_kind { VM_CALL_ALLOCATE, VM_CALL_COMMIT, VM_CALL_PREFIX, VM_CALL_DRAIN, VM_CALL_OTHER } vm_kind;

typedef struct vm_frame {
  vm_kind kind;
  vm_engine *engine;
  vm_block *block;      /* of an allocation: where it goes */
  vm_prefix *prefix;    /* of a prefix: the same */
  NxmemAllocation name; /* of a commit */
  NxmemAllocRequest request;
  int whole;
  NxmemByteRange ranges[4];
  NxmemByteRange range;
  uint64_t bytes;
  uint32_t reclaims;
  uint64_t told;   /* completions */
  uint32_t cursor; /* of an unload report: engines from here on were looked at */
  int entered;     /* the engine holds a reference of its own */
  vm_try tried;    /* the last */
} vm_frame;

/* Of one mechanism on one device: what only grows. */
typedef struct vm_totals {
  uint64_t peak, binds_failed, maps, unmaps, lost, opened, granule;
} vm_totals;

typedef struct vm {
  fuzz_input in;
  vm_header header;
  vm_driver drivers[VM_SLOTS];
  uint32_t driver_count;
  vm_engine engines[VM_SLOTS]; /* by driver */
  vm_block blocks[VM_BLOCKS];
  uint32_t block_top; /* behind the last that was ever used */
  vm_prefix prefixes[VM_PREFIXES];
  vm_rule rules[VM_RULES];
  uint32_t next_rule;
  uint32_t captures[VM_DEVICES];
  int lost[VM_DEVICES];  /* as the driver said */
  int known[VM_DEVICES]; /* as far as the model has read */
  vm_engine *pending;    /* whose section was read last: what it said of the device holds behind it */
  int pending_lost, pending_shut;
  uint32_t open_outcome;
  int open_unsupported, lose_now;
  vm_frame *frames[VM_DEPTH + 2];
  uint32_t frame_count, steps;
  uint64_t next_id;
  int honest;
  int probing; /* calls of a probe count in no total */
} vm;

extern vm it;
extern vm_totals vm_total[VM_OFFERS];           /* of the process: never reset */
extern uint64_t vm_last_prefix, vm_last_ticket; /* the newest numbers: the same */

/* run.c */
void vm_run(const uint8_t *data, size_t size);
void vm_step(void);
void vm_inside(void); /* operations of the host while the engine is inside a call of it */
_Noreturn void vm_fail(const char *what, uint64_t found, uint64_t expected);
void vm_expect(int holds, const char *what);
void vm_same(const char *what, uint64_t found, uint64_t expected);
vm_frame *vm_top(void);
void vm_push(vm_frame *frame);
void vm_pop(void);

/* driver.c */
extern nx_vmm_offer vm_offers[VM_OFFERS];
uint32_t vm_device_of(uint32_t offer);
void vm_driver_forget(vm_driver *d);       /* what it holds is gone */
vm_section *vm_section_next(vm_engine *e); /* the next that the model has not read; NULL: none. In the order of time */
void vm_sections_done(void);               /* all were read; forget them */
uint32_t vm_idle_handles(const vm_driver *d); /* that exist and are mapped nowhere */

/* memory.c: pages that are really there. */
uint64_t vm_pages_base(uint32_t slot);
int vm_pages_map(uint32_t slot, uint64_t address, uint64_t bytes, uint64_t handle);
int vm_pages_unmap(uint64_t address, uint64_t bytes);
int vm_pages_access(uint64_t address, uint64_t bytes, int writable);
void vm_tag_block(vm_block *b);         /* write into what it has committed and not written yet */
void vm_check_tags(const vm_block *b);  /* and read it back */
void vm_tag_prefix(const vm_prefix *p); /* through the owner's address */
void vm_check_prefix(const vm_prefix *p, const vm_view *view);

/* model.c */
int vm_is_gone(const vm_engine *e); /* lost or shut down, as far as the model has read */
int vm_is_dead(const vm_engine *e); /* the same, as the driver has said */
void vm_settle(void);               /* what was read holds now */
int vm_is_captured(const vm_engine *e);
int vm_is_refused_for_capture(const vm_engine *e, const vm_section *s);
uint32_t vm_status_of(uint32_t outcome);
uint64_t vm_granule_mask(uint32_t first, uint32_t count);
uint64_t vm_touched(const vm_engine *e, uint64_t address, uint64_t bytes);
uint64_t vm_count(uint64_t mask);
uint64_t vm_in_use(const vm_engine *e); /* granules that somebody refers to */
uint64_t vm_alone(const vm_block *b);   /* granules that nobody else refers to */
int vm_place(const vm_engine *e, uint64_t bytes, uint64_t align, uint64_t *first_out);
void vm_units_set(vm_engine *e, uint64_t first, uint64_t bytes, uint8_t value);
void vm_put_handles(vm_engine *e, uint64_t count, const vm_section *s, uint64_t *orphans_out);
void vm_poison(vm_engine *e, uint64_t granules);
uint64_t vm_left_mapped(const vm_engine *e, uint64_t granules, const vm_section *s);
typedef enum vm_map_kind { VM_PRIVATE, VM_OWNER, VM_SHARER } vm_map_kind;
vm_try vm_map(vm_engine *e, uint64_t span, vm_map_kind kind, const vm_prefix *of);
void vm_keep_back(vm_engine *e, uint64_t first, uint64_t bytes);
void vm_trims(uint32_t device);

/* check.c */
void vm_check(void);
uint64_t vm_committed(const vm_engine *e);

/* Operations. New ones go to the end. */
enum {
  OP_OPEN,
  OP_ALLOCATE,
  OP_COMMITTED, /* allocate_committed */
  OP_RELEASE,
  OP_COMMIT,
  OP_DECOMMIT,
  OP_COST,
  OP_PREFIX,
  OP_PREFIX_RETAIN,
  OP_PREFIX_RELEASE,
  OP_PREFIX_COMMIT,
  OP_ENQUEUE,
  OP_DRAIN,
  OP_PASS,
  OP_FAIL,
  OP_CAPTURE,
  OP_RETAIN,
  OP_CLOSE,
  OP_REPORT,
  OP_TOUCH,
  OP_MISUSE,
  OP_COUNT
};
vm_engine *vm_pick_engine(uint8_t which); /* one that the host may call, or NULL */
vm_block *vm_pick_block(uint8_t which);   /* there, and of an engine that the host may call */
uint64_t vm_size(const vm_engine *e, uint8_t kind, uint32_t x, uint64_t y);
int vm_mangle(NxmemAllocation *name, uint8_t how,
              uint32_t *status_out); /* 1: no longer honest; 0 in *status_out: any refusal */
void vm_op_open(const vm_record *op);
void vm_op_allocate(const vm_record *op);
void vm_op_committed(const vm_record *op);
void vm_op_release(const vm_record *op);
void vm_op_commit(const vm_record *op);
void vm_op_decommit(const vm_record *op);
void vm_op_cost(const vm_record *op);
void vm_op_prefix(const vm_record *op);
void vm_op_prefix_retain(const vm_record *op);
void vm_op_prefix_release(const vm_record *op);
void vm_op_prefix_commit(const vm_record *op);
void vm_op_enqueue(const vm_record *op);
void vm_op_drain(const vm_record *op);
void vm_op_pass(const vm_record *op);
void vm_op_fail(const vm_record *op);
void vm_op_capture(const vm_record *op);
void vm_op_retain(const vm_record *op);
void vm_op_close(const vm_record *op);
void vm_op_report(const vm_record *op);
void vm_op_touch(const vm_record *op);
void vm_op_misuse(const vm_record *op);

/* blocks.c */
typedef struct vm_end {
  uint32_t status; /* OK, BUSY, RELEASE_QUARANTINED */
  uint64_t unmapped, residual, granules;
} vm_end;
/* A block's end; `within`: the section that is open already, or NULL where the release has its own; `closed`: the device cannot be called. */
vm_end vm_block_end(vm_block *b, vm_section *within, int closed);
void vm_try_allocate(vm_frame *f);
void vm_try_commit(vm_frame *f);
/* sharing.c */
void vm_try_prefix(vm_frame *f);
uint64_t vm_end_views(vm_block *b, uint64_t left); /* handles that go with them */
void vm_forget_prefixes(const vm_engine *e);
/* queue.c */
void vm_inside_begin(vm_frame *f);
void vm_inside_end(vm_frame *f);
NxmemStatus vm_on_reclaim(void *ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out);
NxmemStatus vm_on_completion(void *ctx, const NxmemReleaseCompletion *completion);
void vm_drain_stopped(vm_engine *e, uint64_t told, uint32_t *status_out);
/* open.c */
void vm_release_reference(vm_engine *e); /* the engine's last reference may be gone */
void vm_close(vm_engine *e);
void vm_finish_down_to(vm_frame *f, uint32_t index); /* released engines, the newest first */
void vm_end_all(void);

#endif /* NXMEM_FUZZ_VMM_H */
