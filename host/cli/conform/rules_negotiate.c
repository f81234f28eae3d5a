/*
 * rules_negotiate.c: rules about NxmemNegotiate's answer to an honest offer, old or new.
 * Attackers: an answer that lies in any field.
 * Promise: one field, one rule; the host's own judgement (negotiate.h) has the same order.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/negotiation.h"
#include "nxmem.h"
#include "nxmem/capability.h"
#include "nxmem/negotiate.h"

enum { FAR_MINOR = 9, FAR_MAJOR = 7, REPEATS = 100 };

nx_negotiated nx_negotiate_with(nx_trial *trial, const NxmemNegotiateRequest *offer) {
  nx_negotiated out = {.answer = nx_plugin_room()};
  memset(&out.answer.agreed_major, 0xFF, sizeof out.answer - offsetof(NxmemNegotiateResponse, agreed_major));
  nx_enter("NxmemNegotiate");
  out.code = trial->negotiate(offer, &out.answer).code;
  return out;
}

static nx_negotiated honest(nx_trial *trial) {
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  nx_plugin_load(trial);
  return nx_negotiate_with(trial, &offer);
}

static nx_negotiated agreed(nx_trial *trial) {
  nx_negotiated found = honest(trial);
  NX_GIVEN(found.code == NXMEM_STATUS_OK, "negotiation answered %s", nxmem_status_name(found.code));
  return found;
}

/* ---- An honest offer of ours ------------------------------------------------------------------------------------ */

static void answers_ok(nx_trial *trial, const void *with) {
  (void)with;
  nx_expect_code(honest(trial).code, NX_CODE(OK), "an offer of major 1, minors 0 to 1");
  nx_seen("OK");
}

static void whole_response(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t size = agreed(trial).answer.struct_size;
  NX_EXPECT(size >= NXMEM_RESPONSE_BYTES, "struct_size is %" PRIu32 ", needed 40: how many bytes were written", size);
  NX_EXPECT(size <= NXMEM_RESPONSE_BYTES, "struct_size is %" PRIu32 " in a room of 40", size);
  nx_seen("struct_size 40");
}

static void major_in_range(nx_trial *trial, const void *with) {
  (void)with;
  NxmemNegotiateResponse a = agreed(trial).answer;
  NX_EXPECT(a.agreed_major == NXMEM_ABI_VERSION_MAJOR, "agreed_major is %" PRIu32 ", the host speaks 1 alone",
            a.agreed_major);
  NX_EXPECT(a.plugin_range.major_min <= a.agreed_major && a.agreed_major <= a.plugin_range.major_max,
            "agreed_major 1 is outside the plugin's own range %" PRIu32 "..%" PRIu32, a.plugin_range.major_min,
            a.plugin_range.major_max);
  nx_seen("major 1");
}

static void minor_in_range(nx_trial *trial, const void *with) {
  (void)with;
  NxmemNegotiateResponse a = agreed(trial).answer;
  uint32_t most =
      a.plugin_range.minor_max < NXMEM_ABI_VERSION_MINOR ? a.plugin_range.minor_max : NXMEM_ABI_VERSION_MINOR;
  NX_EXPECT(a.agreed_minor == most, "agreed_minor is %" PRIu32 ", the smaller of both maxima is %" PRIu32,
            a.agreed_minor, most);
  nx_seen("minor %" PRIu32, a.agreed_minor);
}

static void own_range(nx_trial *trial, const void *with) {
  (void)with;
  NxmemVersionRange r = agreed(trial).answer.plugin_range;
  NX_EXPECT(nxmem_range_is_valid(&r),
            "plugin_range is inverted or unwritten: major %" PRIu32 "..%" PRIu32 ", minor %" PRIu32 "..%" PRIu32,
            r.major_min, r.major_max, r.minor_min, r.minor_max);
  nx_seen("major %" PRIu32 "..%" PRIu32 ", minor %" PRIu32 "..%" PRIu32, r.major_min, r.major_max, r.minor_min,
          r.minor_max);
}

static void known_caps(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t caps = agreed(trial).answer.capability_flags;
  NX_EXPECT(!(caps & ~NXMEM_CAPS_KNOWN), "capability_flags 0x%" PRIx64 " holds bits that nobody defined", caps);
  nx_seen("0x%" PRIx64, caps);
}

static void allocator_cap(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t caps = agreed(trial).answer.capability_flags;
  NX_EXPECT(caps & NXMEM_CAP_ALLOCATOR, "capability_flags 0x%" PRIx64 " lacks ALLOCATOR", caps);
  nx_seen("0x%" PRIx64, caps);
}

static void defined_caps(nx_trial *trial, const void *with) {
  (void)with;
  NxmemNegotiateResponse a = agreed(trial).answer;
  NX_EXPECT(!(a.capability_flags & NXMEM_CAPS_KNOWN & ~nxmem_caps_at(a.agreed_minor)),
            "capability_flags 0x%" PRIx64 " holds a bit that minor %" PRIu32 " does not define", a.capability_flags,
            a.agreed_minor);
  nx_seen("0x%" PRIx64 " at minor %" PRIu32, a.capability_flags, a.agreed_minor);
}

static void reserved_is_zero(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t reserved = agreed(trial).answer.reserved;
  NX_EXPECT(reserved == 0, "reserved is %" PRIu32, reserved);
  nx_seen("0");
}

/* Each subset of what the host may offer beside ALLOCATOR. */
static void within_offer(nx_trial *trial, const void *with) {
  (void)with;
  agreed(trial);
  for (uint64_t caps = NXMEM_CAP_ALLOCATOR; caps <= NXMEM_CAPS_KNOWN; caps += 2) {
    NxmemNegotiateRequest offer = nx_plugin_offer();
    offer.host_capability_flags = caps;
    nx_negotiated found = nx_negotiate_with(trial, &offer);
    NX_GIVEN(found.code == NXMEM_STATUS_OK, "an offer of 0x%" PRIx64 " answered %s", caps,
             nxmem_status_name(found.code));
    uint64_t beyond = found.answer.capability_flags & NXMEM_CAPS_KNOWN & ~caps;
    NX_EXPECT(!beyond, "the host offered 0x%" PRIx64 ", the answer holds 0x%" PRIx64 " beyond that", caps, beyond);
  }
  nx_seen("16 offers, nothing beyond any of them");
}

static void unknown_offer(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t before = agreed(trial).answer.capability_flags;
  NxmemNegotiateRequest offer = nx_plugin_offer();
  offer.host_capability_flags = UINT64_MAX;
  nx_negotiated found = nx_negotiate_with(trial, &offer);
  nx_expect_code(found.code, NX_CODE(OK), "an offer of all 64 bits");
  NX_EXPECT(found.answer.capability_flags == before, "the answer went from 0x%" PRIx64 " to 0x%" PRIx64, before,
            found.answer.capability_flags);
  nx_seen("0x%" PRIx64, before);
}

static void repeats(nx_trial *trial, const void *with) {
  (void)with;
  nx_negotiated first = agreed(trial);
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  for (int i = 0; i < REPEATS; i++) {
    nx_negotiated again = nx_negotiate_with(trial, &offer);
    NX_EXPECT(again.code == first.code && !memcmp(&again.answer, &first.answer, sizeof again.answer),
              "answer %d differs from the first", i + 2);
  }
  nx_seen("%d answers, all the same", REPEATS + 1);
}

/* ---- Hosts of other versions ------------------------------------------------------------------------------------ */

static NxmemNegotiateRequest offer_of(uint32_t major_min, uint32_t major_max, uint32_t minor_min, uint32_t minor_max) {
  NxmemNegotiateRequest offer = nx_plugin_offer();
  offer.host_range = (NxmemVersionRange){major_min, major_max, minor_min, minor_max};
  return offer;
}

static void older_host(nx_trial *trial, const void *with) {
  (void)with;
  NxmemVersionRange own = agreed(trial).answer.plugin_range;
  NxmemNegotiateRequest offer = offer_of(1, 1, 0, 0);
  nx_negotiated found = nx_negotiate_with(trial, &offer);
  if (own.minor_min > 0) {
    nx_expect_code(found.code, NX_CODE(VERSION_MISMATCH), "a host of 1.0 alone, below the plugin's own minimum");
    nx_seen("refused: the plugin's minimum is minor %" PRIu32, own.minor_min);
    return;
  }
  nx_expect_code(found.code, NX_CODE(OK), "a host of 1.0 alone");
  NX_EXPECT(found.answer.agreed_minor == 0, "agreed_minor is %" PRIu32, found.answer.agreed_minor);
  NX_EXPECT(!(found.answer.capability_flags & NXMEM_CAPS_KNOWN & ~NXMEM_CAPS_MINOR_0),
            "0x%" PRIx64 " holds a bit that minor 0 does not define", found.answer.capability_flags);
  nx_seen("1.0, 0x%" PRIx64, found.answer.capability_flags);
}

static void newer_host(nx_trial *trial, const void *with) {
  (void)with;
  NxmemVersionRange own = agreed(trial).answer.plugin_range;
  NxmemNegotiateRequest offer = offer_of(1, 1, 0, FAR_MINOR);
  nx_negotiated found = nx_negotiate_with(trial, &offer);
  uint32_t best = own.minor_max < FAR_MINOR ? own.minor_max : FAR_MINOR;
  nx_expect_code(found.code, NX_CODE(OK), "a host of 1.0 to 1.9");
  NX_EXPECT(found.answer.agreed_minor == best, "agreed_minor is %" PRIu32 ", needed the plugin's own maximum %" PRIu32,
            found.answer.agreed_minor, best);
  nx_seen("1.%" PRIu32, best);
}

static void highest_major(nx_trial *trial, const void *with) {
  (void)with;
  NxmemVersionRange own = agreed(trial).answer.plugin_range;
  NxmemNegotiateRequest offer = offer_of(0, FAR_MAJOR, 0, NXMEM_ABI_VERSION_MINOR);
  nx_negotiated found = nx_negotiate_with(trial, &offer);
  uint32_t best = own.major_max < FAR_MAJOR ? own.major_max : FAR_MAJOR;
  nx_expect_code(found.code, NX_CODE(OK), "a host of majors 0 to 7");
  NX_EXPECT(found.answer.agreed_major == best, "agreed_major is %" PRIu32 ", the highest common one is %" PRIu32,
            found.answer.agreed_major, best);
  nx_seen("major %" PRIu32, best);
}

/* ---- Refusals --------------------------------------------------------------------------------------------------- */

typedef enum odd_host { MAJOR_ABOVE, MAJOR_BELOW, MINOR_ABOVE, INVERTED_MAJOR, INVERTED_MINOR, NO_ALLOCATOR } odd_host;

static const odd_host ODD[] = {MAJOR_ABOVE, MAJOR_BELOW, MINOR_ABOVE, INVERTED_MAJOR, INVERTED_MINOR, NO_ALLOCATOR};

/* 1 where a plugin of that range cannot meet such a host. */
static int odd_offer(odd_host kind, const NxmemVersionRange *own, NxmemNegotiateRequest *out) {
  *out = nx_plugin_offer();
  switch (kind) {
    case MAJOR_ABOVE:
      *out = offer_of(own->major_max + 1, own->major_max + 3, 0, NXMEM_ABI_VERSION_MINOR);
      return own->major_max < UINT32_MAX - 3;
    case MAJOR_BELOW:
      *out = offer_of(0, own->major_min - 1, 0, NXMEM_ABI_VERSION_MINOR);
      return own->major_min > 0;
    case MINOR_ABOVE:
      *out = offer_of(1, 1, own->minor_max + 1, own->minor_max + 3);
      return own->minor_max < UINT32_MAX - 3;
    case INVERTED_MAJOR:
      *out = offer_of(own->major_max + 1, own->major_min, 0, NXMEM_ABI_VERSION_MINOR);
      return own->major_max < UINT32_MAX;
    case INVERTED_MINOR:
      *out = offer_of(1, 1, 1, 0);
      return 1;
    case NO_ALLOCATOR:
      out->host_capability_flags &= ~NXMEM_CAP_ALLOCATOR;
      return 1;
  }
  return 0;
}

static nx_codes refusal_of(odd_host kind) {
  return kind == NO_ALLOCATOR ? NX_CODE(UNSUPPORTED_CAPABILITY) : NX_CODE(VERSION_MISMATCH);
}

static void refuses(nx_trial *trial, const void *with) {
  odd_host kind = *(const odd_host *)with;
  NxmemVersionRange own = agreed(trial).answer.plugin_range;
  NxmemNegotiateRequest offer;
  if (!odd_offer(kind, &own, &offer)) nx_does_not_apply("there is no version beyond the plugin's range");
  nx_expect_code(nx_negotiate_with(trial, &offer).code, refusal_of(kind), "such a host");
  nx_seen("%s", nx_codes_words(refusal_of(kind)));
}

static void range_when_refusing(nx_trial *trial, const void *with) {
  (void)with;
  NxmemVersionRange own = agreed(trial).answer.plugin_range;
  uint32_t refused = 0;
  for (size_t i = 0; i < sizeof ODD / sizeof ODD[0]; i++) {
    NxmemNegotiateRequest offer;
    if (!odd_offer(ODD[i], &own, &offer)) continue;
    nx_negotiated found = nx_negotiate_with(trial, &offer);
    if (found.code == NXMEM_STATUS_OK) continue;
    refused++;
    NX_EXPECT(!memcmp(&found.answer.plugin_range, &own, sizeof own),
              "a refusal with %s does not report the plugin's own range", nxmem_status_name(found.code));
  }
  nx_seen("the same range in %" PRIu32 " refusals", refused);
}

#define ON(need, name, text, function, argument)                                                         \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = "Versions", .scope = NX_SCOPE_MODULE, .needs = (need), \
    .check = (function), .with = (argument)                                                              \
  }
#define NEG(name, text, function, argument) ON("NX-NEG-001", name, text, function, argument)

static const nx_rule RULES[] = {
    {.id = "NX-NEG-001",
     .statement = "NxmemNegotiate agrees with a host of 1.0 to 1.1 that offers every capability",
     .section = "Versions",
     .needs = "NX-MOD-002",
     .check = answers_ok},
    NEG("NX-NEG-002", "The response says in struct_size that all of its 40 bytes were written", whole_response, NULL),
    ON("NX-NEG-005", "NX-NEG-003", "The agreed major lies in both ranges", major_in_range, NULL),
    ON("NX-NEG-003", "NX-NEG-004", "The agreed minor is the smaller of both maxima", minor_in_range, NULL),
    NEG("NX-NEG-005", "The plugin's own range is written and not inverted", own_range, NULL),
    NEG("NX-NEG-006", "The answer holds no capability that nobody defined", known_caps, NULL),
    NEG("NX-NEG-007", "The answer holds ALLOCATOR", allocator_cap, NULL),
    ON("NX-NEG-004", "NX-NEG-008", "The answer holds no capability that the agreed minor does not define", defined_caps,
       NULL),
    NEG("NX-NEG-009", "reserved is written as 0", reserved_is_zero, NULL),
    ON("NX-NEG-008", "NX-NEG-010", "Nothing is offered that the host did not offer", within_offer, NULL),
    NEG("NX-NEG-011", "Capability bits of a host ahead of the plugin are ignored", unknown_offer, NULL),
    NEG("NX-NEG-012", "The same offer gets the same answer", repeats, NULL),
    ON("NX-NEG-010", "NX-NEG-013",
       "A host of 1.0 alone gets 1.0, or VERSION_MISMATCH where the plugin's minimum is above", older_host, NULL),
    ON("NX-NEG-004", "NX-NEG-014", "A host with a higher minor gets the plugin's own maximum", newer_host, NULL),
    ON("NX-NEG-003", "NX-NEG-015", "Of several common majors the highest is agreed", highest_major, NULL),
    ON("NX-NEG-005", "NX-NEG-016", "A host of higher majors alone is refused with VERSION_MISMATCH", refuses,
       &ODD[MAJOR_ABOVE]),
    ON("NX-NEG-005", "NX-NEG-017", "A host of lower majors alone is refused with VERSION_MISMATCH", refuses,
       &ODD[MAJOR_BELOW]),
    ON("NX-NEG-005", "NX-NEG-018", "A host that needs a higher minor is refused with VERSION_MISMATCH", refuses,
       &ODD[MINOR_ABOVE]),
    ON("NX-NEG-005", "NX-NEG-019", "An inverted range of majors is refused with VERSION_MISMATCH", refuses,
       &ODD[INVERTED_MAJOR]),
    ON("NX-NEG-005", "NX-NEG-020", "An inverted range of minors is refused with VERSION_MISMATCH", refuses,
       &ODD[INVERTED_MINOR]),
    ON("NX-NEG-005", "NX-NEG-021", "A host without ALLOCATOR is refused with UNSUPPORTED_CAPABILITY", refuses,
       &ODD[NO_ALLOCATOR]),
    ON("NX-NEG-004", "NX-NEG-022", "A refusal reports the plugin's own range all the same", range_when_refusing, NULL),
};

const nx_family nx_negotiation_rules = NX_FAMILY("negotiation", "Versions and capabilities agreed at load", RULES);
