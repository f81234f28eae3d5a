/*
 * owners.h: registry and managers, driven by opcodes over the plugin of life.h; and who owns what, kept beside them.
 * Attackers: the input, which is caller, plugin and holder under pressure at once.
 * Promise: the model shares no code with registry, managers or core; what both say is compared after each step.
 *
 * An input is life.h's: 16 bytes of header, then records of 16 bytes. What the plugin is asked and answers, and what the host books of it, life.h follows; here is whose
 * it is. Steps from inside a slot or a holder come from the same input.
 */
#ifndef NXMEM_FUZZ_OWNERS_H
#define NXMEM_FUZZ_OWNERS_H

#include "life.h"
#include "nxmem_manager.h"

enum {
  OWN_REGISTRIES = 2,
  OWN_MEMBERS = 3, /* contexts, and as many authorities */
  OWN_MECHANISMS = 6,
  OWN_BINDINGS = 8,
  OWN_QUEUES = 2,
  OWN_ROOM = 3, /* of a queue, at most */
  OWN_MANAGERS = 2,
  OWN_HOLDERS = 3, /* of a manager */
  OWN_CHARGES = 24,
  OWN_DEVICES = 3,
  OWN_TIERS = NXMEM_MANAGER_TIERS,
  OWN_NOBODY = 255
};

/* What each handle names. A handle stays where it was when what it names goes: then it is stale. */
typedef enum own_there {
  OWN_NONE,
  OWN_LIVE,
  OWN_COMING,  /* a mechanism that is being registered */
  OWN_LEAVING, /* one that is being removed */
  OWN_DROPPED, /* a binding whose owner is gone */
  OWN_GONE
} own_there;

typedef struct own_registry {
  own_there there;
  nxmem_registry handle;
  uint8_t selected[OWN_DEVICES]; /* mechanism, or OWN_NOBODY */
} own_registry;

typedef struct own_member {
  own_there there;
  uint64_t handle, pins;
  uint8_t registry;
} own_member;

typedef enum own_life { OWN_ACTIVE, OWN_RETIRED, OWN_LOST, OWN_TERMINATED } own_life;

typedef struct own_mechanism {
  own_there there;
  nxmem_mechanism handle;
  own_life life;
  uint8_t registry, context, authority, device;
  uint8_t parts[NXMEM_COMPOSITE_MAX]; /* life's allocators; OWN_NOBODY: closed */
  uint32_t part_count;
  uint64_t bindings, prepared;
} own_mechanism;

typedef struct own_binding {
  own_there there;
  nxmem_binding handle;
  uint8_t mechanism;
  uint64_t uses;
} own_binding;

typedef struct own_queue {
  own_there there;
  nxmem_release_queue handle;
  uint8_t registry, blocks[OWN_ROOM];
  uint32_t room, count, pins;
  int closing;
} own_queue;

/* Whose an allocation is. Beside life's block of the same number. */
typedef enum own_state {
  OWN_FREE,
  OWN_MAKING, /* asked for, or made by a transaction that has not published it */
  OWN_OWNED,
  OWN_PREPARED,
  OWN_QUEUED,
  OWN_RELEASING,
  OWN_EXECUTING, /* the same of one that was prepared */
  OWN_KEPT,
  OWN_ENDED,
  OWN_FORGOTTEN /* kept, and its mechanism went */
} own_state;

typedef struct own_block {
  own_state state;
  uint8_t binding, mechanism, charge; /* OWN_NOBODY: none */
  nxmem_bound bound;
  nxmem_keeping keeping;
  uint32_t status;
  int refused; /* by a queue */
} own_block;

typedef enum own_stage {
  OWN_UNCHARGED,
  OWN_RESERVED,
  OWN_ALLOCATED,
  OWN_COMMITTED,
  OWN_PUBLISHED,
  OWN_WITHDRAWN, /* on its way back: live, with what was reserved */
  OWN_CHARGE_KEPT,
  OWN_SETTLED
} own_stage;

typedef struct own_charge {
  own_stage stage;
  int busy, stepwise;                        /* a call is in it; it goes step by step */
  uint64_t handle, mechanism_id, context_id; /* handle: of its transaction */
  uint64_t published;                        /* what may be waited for, once it is */
  uint8_t manager, authority, binding, block;
  uint64_t named, books, under; /* binding, manager and authority, by their handles */
  int gone;                     /* where it is to be reserved: holders may have ended that */
  uint64_t bytes, align;
  nxmem_axes held, answered;
  int left; /* of answers that were refused; with the last one's reason */
  nxmem_keeping keeping;
  nxmem_axes behind;
} own_charge;

typedef struct own_account {
  int here, delegated;
  uint32_t tier, place; /* place: among those of its manager, the first that was free */
  nxmem_axes budget, slice;
} own_account;

typedef struct own_holder {
  int here;
  uint64_t handle, order;
  int32_t priority;
  uint32_t running;
} own_holder;

typedef struct own_manager {
  own_there there;
  nxmem_manager handle;
  nxmem_axes limits[OWN_TIERS];
  own_account accounts[OWN_MEMBERS]; /* by authority */
  own_holder holders[OWN_HOLDERS];
  uint64_t refusals;
  uint64_t opened[OWN_MECHANISMS]; /* handles of the mechanisms that it has an account of */
} own_manager;

/* Holders being asked: which may come next, and with what. */
typedef struct own_asking {
  int on;
  uint32_t frame;                  /* of whoever asks */
  uint8_t manager, authority, now; /* now: whose bytes are asked for */
  uint64_t under;                  /* the asker's, by its handle */
  int others;                      /* of its tier are asked for as well */
  uint32_t place;                  /* those before it were */
  int asked;                       /* somebody was, for that one; the last one: */
  int32_t last_priority;
  uint64_t last_order, newest;
  nxmem_axes left, given;
} own_asking;

/* What a call may do with the plugin; beside life's frame of the same number. */
typedef struct own_call {
  uint8_t mechanism, part, queue,
      entered;           /* part: which is at work; entered: the one that the call is inside beside the first */
  uint8_t charge;        /* of a transaction, or OWN_NOBODY */
  int pending;           /* its reservation is not booked yet */
  int inside;            /* the call is inside the first part */
  uint64_t mapping;      /* of a commit that a limit refused: not booked yet */
  nxmem_verdict verdict; /* on it */
  uint64_t left;         /* of a drain */
  uint64_t completed, quarantined;
  uint8_t parts[NXMEM_COMPOSITE_MAX], factories[NXMEM_COMPOSITE_MAX]; /* of a registration */
  uint32_t part_count;
} own_call;

typedef struct owners {
  own_registry registries[OWN_REGISTRIES];
  own_member contexts[OWN_MEMBERS], authorities[OWN_MEMBERS];
  own_mechanism mechanisms[OWN_MECHANISMS];
  own_binding bindings[OWN_BINDINGS];
  own_queue queues[OWN_QUEUES];
  own_block blocks[LIFE_BLOCKS];
  own_charge charges[OWN_CHARGES];
  own_manager managers[OWN_MANAGERS];
  own_asking asking;
  int overflown; /* a sum passed what can be counted: managers clamp, and are not compared any more */
  uint64_t holder_order;
  int parts_taken[LIFE_ALLOCATORS]; /* by a registration under way */
  own_call calls[LIFE_DEPTH + 2];
} owners;

extern owners own;

/* run.c */
void own_run(const uint8_t *data, size_t size);
void own_same(const char *what, uint64_t found, uint64_t expected);
void own_expect(int holds, const char *what);
void own_result(const char *what, nxmem_result found, nxmem_result expected);
void own_axes(const char *what, const nxmem_axes *found, const nxmem_axes *expected);

/* plugin.c: who may be asked what. */
life_frame *own_push(life_kind kind, uint8_t mechanism);
own_call *own_top(void);
void own_pop(void);
void own_leave_first(own_call *call);

/* rules.c: what follows from what. */
extern const NxmemDeviceId own_devices[OWN_DEVICES];
own_mechanism *own_mechanism_of(uint8_t block);
nxmem_result own_work(own_life now, own_life last); /* may such work begin, whose last lifecycle that is? */
void own_unuse(uint8_t binding);
void own_settle(uint8_t block, nxmem_keeping keeping, uint32_t status);
void own_keep(uint8_t block, nxmem_keeping why);
void own_settle_next(own_queue *queue, own_call *call);                       /* of a lost device, without a call */
uint64_t own_keep_all(uint8_t mechanism, uint8_t binding, nxmem_keeping why); /* binding OWN_NOBODY: of all */
uint64_t own_inside(const own_mechanism *m);
void own_drop_selection(uint8_t mechanism);
nxmem_holdings own_holdings(const own_mechanism *m);
int own_is_part(const own_mechanism *m, uint32_t allocator);

/* bindings.c */
uint8_t own_free_block(uint8_t from); /* or OWN_NOBODY */
nxmem_result own_may_allocate(uint8_t binding, uint64_t bytes, uint64_t align, int *inside);
life_frame *own_begin_making(uint8_t block, uint8_t binding, uint64_t bytes, uint64_t align); /* pushes */
void own_enter_making(uint8_t block, uint8_t binding);
nxmem_result own_end_making(life_frame *f, uint8_t block);
nxmem_result own_ended_meanwhile(uint8_t block);
nxmem_result own_give_out(uint8_t block); /* kept, and why, where it ended meanwhile */
void own_remember(uint8_t block);         /* what a caller may name from now on */
uint64_t own_align(const life_record *op);

/* releases.c */
nxmem_result own_may_claim(uint8_t block, const nxmem_bound *named, int *known);

/* books.c */
void own_charge_ended(uint8_t charge, int kept);
nxmem_axes own_used(uint8_t manager, uint8_t authority); /* by an authority */
nxmem_axes own_tier_used(uint8_t manager, uint32_t tier, int shares);
nxmem_verdict own_judge(uint8_t manager, uint8_t authority, const nxmem_axes *ask);
void own_keep_answer(const life_frame *f, uint8_t charge, uint8_t to); /* to: the same, or beside it */
void own_forget_answers(uint64_t mechanism);
uint64_t own_open_in(uint8_t manager, uint64_t context_id);
nxmem_axes own_more(const nxmem_axes *answered, const nxmem_axes *held);
nxmem_axes own_shortage(uint8_t manager, uint8_t authority, const nxmem_axes *ask); /* until it fits */
uint64_t *own_axis(nxmem_axes *axes, uint32_t which);

/* pressure.c */
void own_pressure(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out);
void own_begin_asking(uint8_t manager, uint8_t authority, const nxmem_axes *wanted, uint32_t refusal);
nxmem_axes own_end_asking(void); /* what was given; all that had to be asked were */
nxmem_verdict own_after_asking(uint8_t manager, uint8_t authority, const nxmem_axes *ask);

/* transactions.c: from inside slots. */
void own_slot_allocate(life_frame *f, own_call *c);
void own_slot_allocated(life_frame *f, own_call *c);
void own_slot_roll_back(life_frame *f, own_call *c);
void own_asked_by(own_call *c, uint8_t *manager, uint8_t *authority, nxmem_axes *ask);

void own_same_verdict(const nxmem_error *error, const nxmem_verdict *v);

/* pages.c: from inside slots. */
void own_slot_cost(life_frame *f, own_call *c);
void own_slot_commit(life_frame *f, own_call *c);
void own_slot_settling(life_frame *f, own_call *c);
void own_slot_decommitted(const life_frame *f);
void own_slot_settled(const life_frame *f, uint32_t status, uint64_t said);

/* check.c */
void own_check(void);

/* Operations: members.c, mechanisms.c, bindings.c, releases.c, managers.c, transactions.c, pressure.c, pages.c, misuse.c. */
void own_op_registry(const life_record *op);
void own_op_member(const life_record *op);
void own_op_register(const life_record *op);
void own_op_select(const life_record *op);
void own_op_retire(const life_record *op);
void own_op_lose(const life_record *op);
void own_op_confirm(const life_record *op);
void own_op_remove(const life_record *op);
void own_op_bind(const life_record *op);
void own_op_end_binding(const life_record *op);
void own_op_allocate(const life_record *op);
void own_op_release(const life_record *op);
void own_op_prepare(const life_record *op);
void own_op_execute(const life_record *op);
void own_op_abandon(const life_record *op);
void own_op_queue(const life_record *op);
void own_op_push(const life_record *op);
void own_op_drain(const life_record *op);
void own_op_manager(const life_record *op);
void own_op_authority(const life_record *op);
void own_op_limit(const life_record *op);
void own_op_delegate(const life_record *op);
void own_op_reserve(const life_record *op);
void own_op_step(const life_record *op);
void own_op_rollback(const life_record *op);
void own_op_charge(const life_record *op);
void own_op_wait(const life_record *op);
void own_op_pressure(const life_record *op);
void own_op_ask(const life_record *op);
void own_op_context(const life_record *op);
void own_op_reclaim(const life_record *op);
void own_op_unload(const life_record *op);
void own_op_misuse(const life_record *op);
void own_op_pages(const life_record *op);

#endif /* NXMEM_FUZZ_OWNERS_H */
