/*
 * scripted_driver.c: a driver on real pages (hostvmm's own operations) that counts, enforces, and fails on schedule.
 *
 * Attackers played: a driver that fails at the k-th call of any kind, once or for good; work that does not end; a context that cannot be reached.
 * Promise: what it was not told to fail it does; a call that no driver may be given is written down as a breach.
 */
#define _GNU_SOURCE
#include "scripted_driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nxmem_memory_abi.h"

/* hostvmm's, renamed by the build. */
uint32_t nx_host_offers(const nx_vmm_offer **out);

const char *const nx_call_names[NX_CALLS] = {"describe", "bind",       "unbind",   "reserve", "unreserve",
                                             "create",   "destroy",    "map",      "unmap",   "set_access",
                                             "mark",     "mark_state", "drop_mark"};

nx_script nx_the_script;
nx_tally nx_the_tally;

/* Handles and granules that one driver can have: more than any test uses. */
#define OBJECTS_MAX (1ull << 22)

typedef struct scripted {
  nx_vmm_driver host;
  uint64_t granule;
  uint64_t base, bytes; /* its reservation; 0: none */
  uint32_t *mapped;     /* by granule of the reservation: handle's number + 1 */
  uint8_t *handles;     /* by number: 1 where it exists */
  uint64_t next_mark;
  uint64_t own_handles, own_mappings, own_marks;
  int bound;
  pthread_t by;
} scripted;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((format(printf, 1, 2))) static void breach(const char *format, ...) {
  va_list list;
  if (nx_the_tally.breaches++ != 0u) return;
  va_start(list, format);
  vsnprintf(nx_the_tally.breach, sizeof nx_the_tally.breach, format, list);
  va_end(list);
}

static nx_vmm_answer done(void) { return (nx_vmm_answer){NX_VMM_DONE, 0, NULL, NULL}; }
static nx_vmm_answer scripted_answer(nx_call call, uint32_t outcome) {
  return (nx_vmm_answer){outcome, 1000 + (int32_t)outcome, nx_call_names[call], "SCRIPTED"};
}

/* ---- The schedule -------------------------------------------------------------------------------------------------- */

void nx_script_reset(void) {
  nx_the_script = (nx_script){.minimum = 65536u, .recommended = 65536u};
  nx_the_offer.pool_bytes = 0u;
  nx_the_offer.ladder_floor_bytes = 1ull << 36;
  nx_the_offer.ladder_minimum_bytes = 1ull << 30;
  memset(nx_the_tally.calls, 0, sizeof nx_the_tally.calls);
  nx_the_tally.breaches = nx_the_tally.fired = 0u;
  nx_the_tally.lost = nx_the_tally.shut_down = 0;
}

void nx_script_arm(nx_call call, uint64_t at, uint32_t outcome, int for_good) {
  nx_the_script.call = call;
  nx_the_script.at = at;
  nx_the_script.outcome = outcome;
  nx_the_script.for_good = for_good;
  nx_the_tally.fired = 0u;
  memset(nx_the_tally.calls, 0, sizeof nx_the_tally.calls);
}

void nx_script_also(nx_call call, uint64_t at, uint32_t outcome) {
  nx_the_script.also_call = call;
  nx_the_script.also_at = at;
  nx_the_script.also_outcome = outcome;
}

void nx_script_then(nx_call call, uint32_t outcome) {
  nx_the_script.then = 1;
  nx_the_script.then_call = call;
  nx_the_script.then_outcome = outcome;
}

void nx_script_disarm(void) {
  nx_the_script.at = nx_the_script.also_at = 0u;
  nx_the_script.then = 0;
}

static uint32_t chosen(nx_call call, uint64_t number) {
  const nx_script *script = &nx_the_script;
  if (script->also_at == number && script->also_call == call) return script->also_outcome;
  if (script->at == 0u || script->call != call) return NX_VMM_DONE;
  return number == script->at || (script->for_good && number > script->at) ? script->outcome : (uint32_t)NX_VMM_DONE;
}

/* Counts the call; DONE: it is to be made. */
static uint32_t due(nx_call call) {
  uint32_t outcome = chosen(call, ++nx_the_tally.calls[call]);
  if (outcome == NX_VMM_DONE && nx_the_script.then && nx_the_tally.fired != 0u && nx_the_script.then_call == call) {
    nx_the_script.then = 0;
    outcome = nx_the_script.then_outcome;
  }
  nx_the_tally.fired += outcome != NX_VMM_DONE;
  if (outcome == NX_VMM_LOST) nx_the_tally.lost = 1;
  if (outcome == NX_VMM_SHUT_DOWN) nx_the_tally.shut_down = 1;
  return outcome;
}

/* What holds of every call but describe, bind and unbind. */
static void must_be_allowed(const scripted *s, nx_call call) {
  if (nx_the_tally.lost) breach("%s on a lost device", nx_call_names[call]);
  if (nx_the_tally.shut_down) breach("%s after the driver shut down", nx_call_names[call]);
  if (!s->bound || !pthread_equal(s->by, pthread_self())) breach("%s without the context", nx_call_names[call]);
}

static uint32_t enter(const scripted *s, nx_call call) {
  if (nx_the_script.hook != NULL) nx_the_script.hook(call);
  pthread_mutex_lock(&lock);
  must_be_allowed(s, call);
  return due(call);
}
static nx_vmm_answer leave(nx_vmm_answer answer) {
  pthread_mutex_unlock(&lock);
  return answer;
}

/* ---- Device and context -------------------------------------------------------------------------------------------- */

static nx_vmm_answer describe(void *self, nx_vmm_device *out) {
  const scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_DESCRIBE);
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_DESCRIBE, outcome));
  *out = (nx_vmm_device){nx_the_script.minimum, nx_the_script.recommended, nx_the_script.memory_bytes};
  return leave(done());
}

static nx_vmm_answer bind(void *self) {
  scripted *s = self;
  pthread_mutex_lock(&lock);
  if (nx_the_tally.lost || nx_the_tally.shut_down) breach("bind on a device that is gone");
  if (s->bound) breach("bind twice");
  uint32_t outcome = due(NX_CALL_BIND);
  if (nx_the_script.unbound) outcome = NX_VMM_UNBOUND;
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_BIND, outcome));
  s->bound = 1;
  s->by = pthread_self();
  return leave(done());
}

static nx_vmm_answer unbind(void *self) {
  scripted *s = self;
  pthread_mutex_lock(&lock);
  if (!s->bound || !pthread_equal(s->by, pthread_self())) breach("unbind without bind");
  s->bound = 0;
  const uint32_t outcome = due(NX_CALL_UNBIND);
  return leave(outcome == NX_VMM_DONE ? done() : scripted_answer(NX_CALL_UNBIND, outcome));
}

/* ---- Address space ------------------------------------------------------------------------------------------------- */

static void *table(size_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) abort();
  return at;
}

static nx_vmm_answer reserve(void *self, uint64_t bytes, uint64_t align, uint64_t *address_out) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_RESERVE);
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_RESERVE, outcome));
  if (nx_the_script.reserve_limit != 0u && bytes > nx_the_script.reserve_limit)
    return leave(scripted_answer(NX_CALL_RESERVE, NX_VMM_NO_MEMORY));
  const nx_vmm_answer answer = s->host.reserve(s->host.self, bytes, align, address_out);
  if (answer.outcome == NX_VMM_DONE) {
    s->granule = align;
    s->base = *address_out;
    s->bytes = bytes;
    s->mapped = table(bytes / align * sizeof *s->mapped);
    nx_the_tally.reservations++;
  }
  return leave(answer);
}

static nx_vmm_answer unreserve(void *self, uint64_t address, uint64_t bytes) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_UNRESERVE);
  if (address != s->base || bytes != s->bytes) breach("unreserve of another span");
  if (s->own_mappings != 0u) breach("unreserve with mappings");
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_UNRESERVE, outcome));
  munmap(s->mapped, s->bytes / s->granule * sizeof *s->mapped);
  s->bytes = 0u;
  nx_the_tally.reservations--;
  return leave(s->host.unreserve(s->host.self, address, bytes));
}

/* ---- Handles ------------------------------------------------------------------------------------------------------- */

static nx_vmm_answer create(void *self, uint64_t bytes, uint64_t *handle_out) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_CREATE);
  if (bytes != s->granule) breach("a handle that is not a granule");
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_CREATE, outcome));
  const nx_vmm_answer answer = s->host.create(s->host.self, bytes, handle_out);
  if (answer.outcome == NX_VMM_DONE) {
    s->handles[*handle_out / s->granule] = 1u;
    s->own_handles++;
    nx_the_tally.handles++;
  }
  return leave(answer);
}

static int is_handle(const scripted *s, uint64_t handle) {
  return handle % s->granule == 0u && handle / s->granule < OBJECTS_MAX && s->handles[handle / s->granule];
}

static nx_vmm_answer destroy(void *self, uint64_t handle) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_DESTROY);
  if (!is_handle(s, handle)) breach("destroy of what is no handle");
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_DESTROY, outcome));
  s->handles[handle / s->granule] = 0u;
  s->own_handles--;
  nx_the_tally.handles--;
  return leave(s->host.destroy(s->host.self, handle));
}

/* ---- Mappings ------------------------------------------------------------------------------------------------------ */

static int is_inside(const scripted *s, uint64_t address, uint64_t bytes) {
  return bytes != 0u && bytes % s->granule == 0u && address >= s->base && (address - s->base) % s->granule == 0u &&
         address - s->base + bytes <= s->bytes;
}
static uint64_t index_of(const scripted *s, uint64_t address) { return (address - s->base) / s->granule; }

/* 1 where each granule of a span is mapped, or none is. */
static int all_are(const scripted *s, uint64_t address, uint64_t bytes, int mapped) {
  for (uint64_t i = 0u; i < bytes / s->granule; i++)
    if ((s->mapped[index_of(s, address) + i] != 0u) != mapped) return 0;
  return 1;
}

static nx_vmm_answer map(void *self, uint64_t address, uint64_t bytes, uint64_t handle) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_MAP);
  if (!is_inside(s, address, bytes) || bytes != s->granule) breach("map of no granule");
  if (!all_are(s, address, bytes, 0)) breach("map over a mapping");
  if (!is_handle(s, handle)) breach("map of what is no handle");
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_MAP, outcome));
  const nx_vmm_answer answer = s->host.map(s->host.self, address, bytes, handle);
  if (answer.outcome == NX_VMM_DONE) {
    s->mapped[index_of(s, address)] = (uint32_t)(handle / s->granule) + 1u;
    s->own_mappings++;
    nx_the_tally.mappings++;
  }
  return leave(answer);
}

static nx_vmm_answer unmap(void *self, uint64_t address, uint64_t bytes) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_UNMAP);
  if (!is_inside(s, address, bytes) || !all_are(s, address, bytes, 1)) breach("unmap of what is not mapped whole");
  if (nx_the_script.pending && s->own_marks != 0u) breach("unmap while a mark is pending");
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_UNMAP, outcome));
  memset(&s->mapped[index_of(s, address)], 0, bytes / s->granule * sizeof *s->mapped);
  s->own_mappings -= bytes / s->granule;
  nx_the_tally.mappings -= bytes / s->granule;
  return leave(s->host.unmap(s->host.self, address, bytes));
}

static nx_vmm_answer set_access(void *self, uint64_t address, uint64_t bytes, nx_vmm_access access) {
  scripted *s = self;
  uint32_t outcome = enter(s, NX_CALL_SET_ACCESS);
  if (!is_inside(s, address, bytes) || !all_are(s, address, bytes, 1)) breach("access to what is not mapped whole");
  if (access == NX_VMM_READ_ONLY && nx_the_script.read_only_refused) outcome = NX_VMM_REFUSED;
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_SET_ACCESS, outcome));
  return leave(s->host.set_access(s->host.self, address, bytes, access));
}

/* ---- Marks --------------------------------------------------------------------------------------------------------- */

static nx_vmm_answer mark(void *self, uint64_t *mark_out) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_MARK);
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_MARK, outcome));
  *mark_out = ++s->next_mark;
  s->own_marks++;
  nx_the_tally.marks++;
  return leave(done());
}

static nx_vmm_answer mark_state(void *self, uint64_t made) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_MARK_STATE);
  if (made == 0u || made > s->next_mark) breach("the state of what is no mark");
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_MARK_STATE, outcome));
  return leave(nx_the_script.pending ? (nx_vmm_answer){NX_VMM_PENDING, 600, "mark_state", "PENDING"} : done());
}

static nx_vmm_answer drop_mark(void *self, uint64_t made) {
  scripted *s = self;
  const uint32_t outcome = enter(s, NX_CALL_DROP_MARK);
  if (made == 0u || made > s->next_mark) breach("dropping what is no mark");
  if (outcome != NX_VMM_DONE) return leave(scripted_answer(NX_CALL_DROP_MARK, outcome));
  s->own_marks--;
  nx_the_tally.marks--;
  return leave(done());
}

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

/* Drivers that are open, or whose device is gone: their memory stays as it is, for tests to look at. */
enum { DRIVERS_MAX = 64 };
static scripted *drivers[DRIVERS_MAX];

static void note(scripted *s, scripted *instead) {
  for (int i = 0; i < DRIVERS_MAX; i++) {
    if (drivers[i] != s) continue;
    drivers[i] = instead;
    return;
  }
  abort();
}

static void end(scripted *s) {
  munmap(s->handles, OBJECTS_MAX);
  s->host.close(s->host.self);
  free(s);
}

static void close_scripted(void *self) {
  scripted *s = self;
  if (nx_the_tally.lost) breach("close on a lost device");
  if (s->own_handles != 0u || s->own_mappings != 0u || s->own_marks != 0u || s->bytes != 0u)
    breach("close with %d handles, %d mappings, %d marks", (int)s->own_handles, (int)s->own_mappings,
           (int)s->own_marks);
  nx_the_tally.drivers--;
  note(s, NULL);
  end(s);
}

void nx_tally_bury(void) {
  nx_the_tally.handles = nx_the_tally.mappings = nx_the_tally.marks = nx_the_tally.reservations = 0u;
  nx_the_tally.drivers = 0u;
  for (int i = 0; i < DRIVERS_MAX; i++) {
    scripted *s = drivers[i];
    if (s == NULL) continue;
    if (s->bytes != 0u) {
      munmap(s->mapped, s->bytes / s->granule * sizeof *s->mapped);
      munmap((void *)(uintptr_t)s->base, s->bytes);
    }
    drivers[i] = NULL;
    end(s);
  }
}

static nx_vmm_answer open_scripted(const nx_vmm_offer *offer, nx_vmm_driver *out, int *unsupported_out, char why[200]) {
  const nx_vmm_offer *host = NULL;
  (void)nx_host_offers(&host);
  scripted *s = calloc(1u, sizeof *s);
  if (s == NULL) abort();
  const nx_vmm_answer opened = host->open(offer, &s->host, unsupported_out, why);
  if (opened.outcome != NX_VMM_DONE) abort();
  s->handles = table(OBJECTS_MAX);
  nx_the_tally.drivers++;
  *out = (nx_vmm_driver){.self = s,
                         .describe = describe,
                         .bind = bind,
                         .unbind = unbind,
                         .reserve = reserve,
                         .unreserve = unreserve,
                         .create = create,
                         .destroy = destroy,
                         .map = map,
                         .unmap = unmap,
                         .set_access = set_access,
                         .mark = mark,
                         .mark_state = mark_state,
                         .drop_mark = drop_mark,
                         .close = close_scripted};
  note(NULL, s);
  return opened;
}

nx_vmm_offer nx_the_offer = {.name = "scripted",
                             .mechanism_id = 0x5C1,
                             .tier = NXMEM_TIER_HOST,
                             .index = 7u,
                             .capabilities = NXMEM_CAP_ALLOCATOR | NXMEM_CAP_VIRTUAL_BACKING |
                                             NXMEM_CAP_SHARED_MAPPING | NXMEM_CAP_DEFERRED_RELEASE |
                                             NXMEM_CAP_STRUCTURED_RELEASE,
                             .open = open_scripted};

uint32_t nx_vmm_offers(const nx_vmm_offer **out) {
  *out = &nx_the_offer;
  return 1u;
}
