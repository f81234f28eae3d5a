/*
 * life.h: the real host, driven by opcodes, against a plugin that answers from the same input; and the books that a
 * reference model keeps beside it.
 * Attackers: the input, which is caller and plugin at once.
 * Promise: the model shares no code with host or core; what both say is compared after each step.
 *
 * An input is 16 bytes of header, then records of 16 bytes. A record is read as an operation (a caller's) or, where the
 * plugin is asked, as its answer; operations inside an answer are calls from inside the slot. Behind the last record
 * the plugin answers honestly.
 *
 * Effects are booked at two moments only: when a slot is entered (what the host must have done before) and when it
 * answers (what the host must do next, before anybody can look).
 */
#ifndef NXMEM_FUZZ_LIFE_H
#define NXMEM_FUZZ_LIFE_H

#include "fuzz_plugin.h"
#include "harness.h"
#include "nxmem.h"

enum {
  LIFE_RECORD = 16,
  LIFE_ALLOCATORS = 4,
  LIFE_BLOCKS = 24,
  LIFE_PREFIXES = 6,
  LIFE_BYTES = 24,
  LIFE_FACTORIES = 4,
  LIFE_PLUGINS = 2, /* handles that an input may have */
  LIFE_BASE = 2,    /* one that it has not: keeps the module from going, where the input is not about loads */
  LIFE_KEPT = 1024,
  LIFE_DEPTH = 4,
  LIFE_STEPS = 256,
  LIFE_GROUP = 3
};
#define LIFE_TOTAL_MAX 0x8000000000000000ull
#define LIFE_UNWRITTEN 0xFFFFFFFFFFFFFFFFull
#define LIFE_ANY_REASON 0xFFFFFFFFu /* of the last violation: one of several, by how the host uses its slots again */

/* ---- The input --------------------------------------------------------------------------------------------------- */

/* On the wire: op, a, b, c, d, three bytes of x, eight of y, each from its low byte up. An answer has no op. */
typedef struct life_record {
  uint8_t op, a, b, c, d;
  uint32_t x;
  uint64_t y;
} life_record;

/* What a target lets an input do. */
typedef struct life_rules {
  const uint8_t *ops; /* operations by number, as often as they shall come */
  uint32_t op_count;
  int honest_tables; /* tables are honest: nothing stands in the way of what comes behind them */
  int loads;         /* each input has a host and a load of its own; else those of the inputs before it */
  /* Of a target that has steps of its own; NULL elsewhere. */
  void (*begin)(void);
  void (*step)(void);
  void (*end)(void);
  nxmem_reclaim_fn reclaim;
  void *reclaim_ctx;
} life_rules;

typedef struct life_header {
  uint8_t mode; /* LIFE_... bits */
  uint8_t caps; /* what the host offers; ALLOCATOR is added */
  uint8_t unused[14];
} life_header;

enum {
  LIFE_HOSTILE_LOAD = 1, /* negotiation and enumeration answer from the input */
  LIFE_DIRECT = 2,       /* the direct fetch */
  LIFE_TRUSTED = 4,      /* addresses are not looked at */
  LIFE_OLD = 8,          /* a host of minor 0 */
  LIFE_NO_HOOK = 16,     /* no reclaim hook */
  LIFE_UNMAP = 32        /* nobody else has the library open: it is really unmapped */
};

/* ---- The model --------------------------------------------------------------------------------------------------- */

typedef enum life_gate {
  GATE_NONE,
  GATE_OPENING,
  GATE_OPEN,
  GATE_WAITING, /* a close found calls inside */
  GATE_CLOSING,
  GATE_HELD,
  GATE_GONE
} life_gate;

typedef struct life_allocator {
  life_gate gate;
  nxmem_allocator handle;
  const NxmemHostCallbacks *callbacks;
  void *context; /* what its callbacks are to be given */
  uint32_t factory;
  uint64_t effective, mechanism;
  NxmemDeviceId device;
  uint32_t minor;
  uint32_t backing, sharing; /* bit n: slot n is there */
  uint64_t inside;           /* host calls in the plugin */
  uint64_t callbacks_running;
  int closed; /* nothing becomes live again */
  int pinned; /* with a pin source */
  uint32_t releases_owed;
  uint64_t live, quarantined, quarantined_bytes, owned, mapped, residual, queued, rounds;
  void *blocks[3]; /* the tables it published */
} life_allocator;

typedef enum life_state {
  BLOCK_NONE,
  BLOCK_ALLOCATING,
  BLOCK_LIVE,
  BLOCK_RELEASING,
  BLOCK_QUEUING,
  BLOCK_QUEUED,
  BLOCK_QUARANTINED,
  BLOCK_GONE
} life_state;

typedef struct life_block {
  life_state state;
  uint64_t id, bytes, align, address, owned, mapped, ticket;
  uint32_t owner, pins;
  int met, indexed;
  uint16_t maps[LIFE_BYTES]; /* how often it maps each */
} life_block;

/* What a prefix owns, for as long as it or a mapping of it is there. */
typedef struct life_bytes {
  uint64_t charged, users;
  uint32_t owner;
  int kept;
} life_bytes;

typedef enum life_prefix_state {
  PREFIX_NONE,
  PREFIX_MAKING,
  PREFIX_LIVE,
  PREFIX_QUARANTINED,
  PREFIX_GONE
} life_prefix_state;

typedef struct life_prefix {
  life_prefix_state state;
  nxmem_prefix handle;
  uint32_t owner, pins, own; /* in life.bytes */
  uint64_t held, leaving, bytes, physical, mapped, number, address;
} life_prefix;

typedef enum life_module_state {
  MODULE_NONE,
  MODULE_LOADING,
  MODULE_LIVE,
  MODULE_UNLOADING,
  MODULE_LEFT
} life_module_state;

typedef struct life_factory {
  void *table; /* as published; NULL: none */
  void *name;
  NxmemDeviceId device;
  uint32_t owed; /* releases */
  int debt;      /* owned, without a release: counted when the others are released */
  int left_out;  /* of a newer level: released before the list as a whole is judged */
} life_factory;

typedef struct life_module {
  life_module_state state;
  uint64_t references, inside, unpaid;
  uint64_t retained, retained_bytes, retained_owned, retained_mapped;
  uint32_t minor; /* agreed */
  uint64_t caps;
  uint32_t factory_count; /* those that the host lists */
  uint32_t refused_for;   /* the reason; counted after those to be left out are released, before the others are */
  uint32_t listed[LIFE_FACTORIES];
} life_module;

typedef struct life_range {
  uint32_t factory;
  uint64_t first, bytes;
} life_range;

/* One call of the host's API, and what is to become of it. */
typedef enum life_kind {
  CALL_OTHER,
  CALL_LOAD,
  CALL_OPEN,
  CALL_ALLOCATE,
  CALL_MAKE, /* a prefix */
  CALL_RELEASE,
  CALL_ENQUEUE,
  CALL_CLOSE,
  CALL_COMMIT,
  CALL_COMMITTED,
  CALL_GROUP,
  CALL_OWNED /* a release that owns: what the plugin leaves as it was is kept */
} life_kind;

typedef struct life_frame {
  life_kind kind;
  life_allocator *a;
  life_block *block;
  life_prefix *prefix;
  nxmem_result result;
  uint32_t calls, nested, drains, settles, reason, axis, rolled;
  uint64_t before; /* of a drain: queued ones; of a commit: its cost */
  uint32_t factory;
  uint64_t id;
  int completed, released, handing_back, refuse_pin, lost;
  uint32_t status; /* of a release that owns: what was answered, and what came of it */
  int gone, unchanged;
  uint64_t offset, size, align;
  const NxmemByteRange *ranges; /* `count` of them, the caller's */
  uint32_t group[LIFE_GROUP], count, mapped, kept, touched;
  uint64_t out, required;
  NxmemUnloadReport report; /* what the plugin said of itself */
  uint64_t tally[5];        /* what the host held then */
} life_frame;

typedef struct life_quarantined {
  uint64_t address, bytes, owned, mapped, residual;
  uint32_t status, reason;
} life_quarantined;

typedef struct life {
  fuzz_input in;
  const life_rules *rules;
  life_header header;
  nxmem_host host;
  uint64_t open_plugins, violations, refused, unpaid, forced, strays;
  uint32_t last_reason;
  nxmem_plugin plugins[LIFE_PLUGINS + 1];
  int plugin_open[LIFE_PLUGINS + 1];
  life_module module;
  life_factory factories[LIFE_FACTORIES];
  life_allocator allocators[LIFE_ALLOCATORS];
  life_block blocks[LIFE_BLOCKS];
  life_prefix prefixes[LIFE_PREFIXES];
  life_bytes bytes[LIFE_BYTES];
  uint32_t kept_count; /* in life_kept */
  uint64_t listed;     /* in quarantine */
  uint64_t listed_seen, violations_seen;
  life_quarantined last_listed;
  uint64_t pins_out, next_address, next_number;
  uint32_t depth, steps;
  life_frame frames[LIFE_DEPTH + 2];
  uint32_t frame_count;
  int honest; /* the plugin answers honestly, whatever the input says: at the end, and in what is kept */
  int ends;   /* at the end nothing is left to chance */
} life;

extern life it;
extern life_range life_kept[LIFE_KEPT]; /* addresses that the plugin kept, without a record */
extern const fuzz_slots *life_own;      /* the library's slots */

/* The input as one life from begin to end. */
void life_run(const life_rules *rules, const uint8_t *data, size_t size);

/* script.c: records, and what is made of them. */
life_record life_take(void);
life_record life_take_answer(void); /* honest where the model says so */
NxmemStatus life_status(const life_record *answer);
uint64_t life_number(uint8_t kind, uint64_t honest, const life_record *answer);
uint64_t life_size(const life_record *op);
int life_is_direct(void);
void life_nest(const life_record *answer);
void life_store(uint64_t *out, uint64_t value);

/* Frames. */
life_frame *life_push(life_kind kind);
life_frame *life_top(void);
void life_pop(void);

/* books.c */
_Noreturn void life_fail(const char *what);
void life_expect(int holds, const char *what);
void life_violation(uint32_t reason);
int life_is_taken(const life_allocator *a, uint64_t first, uint64_t bytes);
int life_index(life_block *b); /* 0: taken */
void life_keep(const life_block *b);
int life_move(life_block *b, uint64_t owned, uint64_t mapped);
void life_refund(life_block *b, uint64_t reported);
uint64_t life_most_mapped(uint64_t offset, uint64_t bytes);
void life_list(uint64_t address, uint64_t bytes, uint64_t owned, uint64_t mapped, uint64_t residual, uint32_t status,
               uint32_t reason);
void life_quarantine(life_block *b, uint64_t residual, uint32_t status, uint32_t reason);
void life_finish(life_block *b, int gone, uint64_t unmapped, uint64_t residual, uint32_t status);
void life_settle_share(life_allocator *a);
void life_leave_bytes(uint32_t which, int kept); /* one user less */
void life_drop_maps(life_block *b, int kept);
uint64_t life_prefixes_of(const life_allocator *a);
life_allocator *life_owner(const life_block *b);
life_block *life_block_of(uint64_t id);
life_allocator *life_allocator_of_ctx(void *ctx);

/* What claims answer. */
nxmem_result life_enter(const life_allocator *a);
nxmem_result life_claim(const life_allocator *a, const life_block *b, const void *ptr, uint64_t bytes, uint64_t align);
nxmem_result life_pin(const life_allocator *a, const life_block *b, const void *ptr);
void life_unpin(life_block *b);

/* check.c: the host's books against the model's. */
void life_check(void);
void life_check_about(uint32_t which); /* after a step about this allocator */
void life_same_result(const char *what, nxmem_result found, nxmem_result expected);

/* ops.c: one operation. */
void life_step(void);
enum {
  OP_OPEN,
  OP_ALLOCATE,
  OP_RELEASE,
  OP_ENQUEUE,
  OP_COMPLETE,
  OP_DRAIN,
  OP_PENDING,
  OP_CLOSE,
  OP_COMMIT,
  OP_DECOMMIT,
  OP_COMMITTED,
  OP_COST_OF_RANGES,
  OP_COST_OF_ALLOCATION,
  OP_PREFIX_CREATE,
  OP_PREFIX_RETAIN,
  OP_PREFIX_RELEASE,
  OP_PREFIX_INFO,
  OP_PREFIX_COMMIT,
  OP_RECLAIM,
  OP_LOAD,
  OP_UNLOAD,
  OP_DESTROY,
  OP_END_HOST,
  OP_ASK,
  OP_COUNT
};
void life_op_open(const life_record *op);
void life_op_allocate(const life_record *op);
void life_op_release(const life_record *op);
void life_op_enqueue(const life_record *op);
void life_op_complete(const life_record *op);
void life_op_drain(const life_record *op);
void life_op_pending(const life_record *op);
void life_op_close(const life_record *op);
void life_op_commit(const life_record *op);
void life_op_decommit(const life_record *op);
void life_op_committed(const life_record *op);
void life_op_cost_of_ranges(const life_record *op);
void life_op_cost_of_allocation(const life_record *op);
void life_op_prefix_create(const life_record *op);
void life_op_prefix_retain(const life_record *op);
void life_op_prefix_release(const life_record *op);
void life_op_prefix_info(const life_record *op);
void life_op_prefix_commit(const life_record *op);
void life_op_reclaim(const life_record *op);
void life_op_load(const life_record *op);
void life_op_unload(const life_record *op);
void life_op_destroy(const life_record *op);
void life_op_end_host(const life_record *op);
void life_op_ask(const life_record *op);

/* close.c, complete.c, for the end of an input. */
nxmem_result life_close(life_allocator *a, uint32_t flags);
void life_complete_honestly(life_block *b);
int life_reclaim_hook(void *ctx, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out);
extern const nxmem_pin_source life_pins;

/* module.c */
const char *life_path(void);
int life_is_held_elsewhere(void); /* the library, by others than the host of this input */
nxmem_result life_load(uint32_t which);
nxmem_result life_unload(uint32_t which);
nxmem_result life_destroy(uint32_t which);
uint64_t life_tally_allocations(void);
void life_count_debts(uint32_t below);
void life_count_refusal(void);

/* The hooks of each file. */
NxmemStatus life_negotiate(const fuzz_slots *own, const NxmemNegotiateRequest *request,
                           NxmemNegotiateResponse *response);
NxmemStatus life_create_factories(const NxmemAllocatorFactoryVtable **out, uint64_t max, uint64_t *count_out);
NxmemStatus life_query_unload(NxmemUnloadReport *report_out);
void life_release_factory(void *ctx);
NxmemStatus life_open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **out);
void life_release_allocator(void *ctx);
void life_retain_allocator(void *ctx);
NxmemStatus life_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *out);
NxmemStatus life_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out);
NxmemStatus life_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out);
NxmemStatus life_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out);
NxmemStatus life_drain_releases(void *ctx, uint64_t max, uint64_t *retired_out);
NxmemStatus life_pending_release_count(void *ctx, uint64_t *count_out);
NxmemStatus life_commit_range(void *ctx, const NxmemRangeRequest *request);
NxmemStatus life_decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out);
NxmemStatus life_mapped_bytes_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count,
                                         uint64_t *mapped_out);
NxmemStatus life_mapped_bytes_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out);
NxmemStatus life_committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out);
NxmemStatus life_create_shared_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes,
                                      NxmemSharedPrefixHandle *handle_out);
NxmemStatus life_retain_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle);
NxmemStatus life_release_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle);
NxmemStatus life_incremental_owned_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out);
NxmemStatus life_commit_shared_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                      NxmemSharedPrefixCommitInfo *out);
void life_check_allocation(const life_allocator *a, const life_block *b, const NxmemAllocation *allocation);

#endif /* NXMEM_FUZZ_LIFE_H */
