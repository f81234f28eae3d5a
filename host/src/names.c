/*
 * names.c: words for codes, for people.
 *
 * Attackers: a code that does not exist.
 * Promise: every code has an answer; the strings are static.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "error.h"
#include "nxmem.h"
#include "nxmem/unload.h"
#include "nxmem/verdict.h"

const char *nxmem_result_name(nxmem_result result) {
  switch (result) {
    case NXMEM_OK:
      return "ok";
    case NXMEM_ERR_INVALID_ARGUMENT:
      return "invalid-argument";
    case NXMEM_ERR_CANNOT_OPEN:
      return "cannot-open";
    case NXMEM_ERR_MISSING_SYMBOL:
      return "missing-symbol";
    case NXMEM_ERR_NEGOTIATION:
      return "negotiation";
    case NXMEM_ERR_CONTRACT:
      return "contract";
    case NXMEM_ERR_UNREADABLE_MEMORY:
      return "unreadable-memory";
    case NXMEM_ERR_PLUGIN:
      return "plugin-error";
    case NXMEM_ERR_UNKNOWN_MECHANISM:
      return "unknown-mechanism";
    case NXMEM_ERR_UNSUPPORTED_CAPABILITY:
      return "unsupported-capability";
    case NXMEM_ERR_BUSY:
      return "busy";
    case NXMEM_ERR_STALE_HANDLE:
      return "stale-handle";
    case NXMEM_ERR_WRONG_OWNER:
      return "wrong-owner";
    case NXMEM_ERR_MISMATCH:
      return "mismatch";
    case NXMEM_ERR_QUARANTINED:
      return "quarantined";
    case NXMEM_ERR_OUT_OF_MEMORY:
      return "out-of-memory";
    case NXMEM_ERR_FORKED:
      return "forked";
    case NXMEM_ERR_UNKNOWN_ALLOCATION:
      return "unknown-allocation";
    case NXMEM_ERR_RETIRED:
      return "retired";
    case NXMEM_ERR_DEVICE_LOST:
      return "device-lost";
    case NXMEM_ERR_TERMINATED:
      return "terminated";
    case NXMEM_ERR_QUEUE_REFUSED:
      return "queue-refused";
    case NXMEM_ERR_OVER_LIMIT:
      return "over-limit";
    case NXMEM_ERR_TIMED_OUT:
      return "timed-out";
    case NXMEM_ERR_NOT_ALLOWED:
      return "not-allowed";
    default:
      return "unknown";
  }
}

const char *nxmem_reason_text(uint32_t reason) {
  switch (reason) {
    case NXMEM_REASON_NONE:
      return "accepted";
    case NXMEM_REASON_NULL_POINTER:
      return "pointer is NULL";
    case NXMEM_REASON_MISALIGNED:
      return "address is not a multiple of 8";
    case NXMEM_REASON_SHORT_HEADER:
      return "struct_size is smaller than the table's header";
    case NXMEM_REASON_SHORT_TABLE:
      return "struct_size is smaller than the claimed level needs";
    case NXMEM_REASON_MISSING_SLOT:
      return "a required slot is NULL";
    case NXMEM_REASON_ZERO_MECHANISM:
      return "mechanism id is 0";
    case NXMEM_REASON_OTHER_MECHANISM:
      return "mechanism id is another mechanism's";
    case NXMEM_REASON_UNKNOWN_CAPABILITY:
      return "a capability bit that this level does not define";
    case NXMEM_REASON_TABLE_WITHOUT_FLAG:
      return "a capability table that its flags do not declare";
    case NXMEM_REASON_FLAG_WITHOUT_SLOT:
      return "a declared capability without its table or slot";
    case NXMEM_REASON_NO_ALLOCATOR:
      return "the ALLOCATOR capability is missing";
    case NXMEM_REASON_REQUIRED_MISSING:
      return "a required capability is not effective";
    case NXMEM_REASON_PLUGIN_REFUSED:
      return "the plugin refused with a status";
    case NXMEM_REASON_SHORT_RESPONSE:
      return "the response's struct_size is too small";
    case NXMEM_REASON_SHORT_REQUEST:
      return "the request's struct_size is too small";
    case NXMEM_REASON_INVERTED_RANGE:
      return "a version range is inverted";
    case NXMEM_REASON_NO_COMMON_MAJOR:
      return "no common major version";
    case NXMEM_REASON_NO_COMMON_MINOR:
      return "no common minor version";
    case NXMEM_REASON_MAJOR_OUT_OF_RANGE:
      return "the agreed major version is out of range";
    case NXMEM_REASON_MINOR_OUT_OF_RANGE:
      return "the agreed minor version is out of range";
    case NXMEM_REASON_CAPS_BEYOND_OFFER:
      return "the answer has capabilities that were not offered";
    case NXMEM_REASON_CAPS_BEYOND_LEVEL:
      return "the answer has capabilities that the agreed level does not define";
    case NXMEM_REASON_UNKNOWN_TIER:
      return "the device tier is unknown";
    case NXMEM_REASON_OTHER_DEVICE:
      return "the device is another one";
    case NXMEM_REASON_EMPTY_NAME:
      return "the name is empty";
    case NXMEM_REASON_UNTERMINATED_NAME:
      return "the name has no NUL where one must be";
    case NXMEM_REASON_BAD_UTF8:
      return "the name is not valid UTF-8";
    case NXMEM_REASON_CONTROL_CHARACTER:
      return "the name has a control character";
    case NXMEM_REASON_NULL_ADDRESS:
      return "OK with a NULL address";
    case NXMEM_REASON_MISALIGNED_ADDRESS:
      return "OK with an address that is not aligned as asked";
    case NXMEM_REASON_WRAPPING_ADDRESS:
      return "OK with an address whose end wraps";
    case NXMEM_REASON_TOTAL_TOO_LARGE:
      return "a byte count that carries the total past 2^63";
    case NXMEM_REASON_ZERO_BYTES:
      return "zero bytes asked for";
    case NXMEM_REASON_BAD_ALIGNMENT:
      return "alignment is not a power of two";
    case NXMEM_REASON_SIZE_WRAPS:
      return "size rounded up to its alignment passes 2^64";
    case NXMEM_REASON_OTHER_ADDRESS:
      return "the address is not the allocation's";
    case NXMEM_REASON_OTHER_BYTES:
      return "the size is not the allocation's";
    case NXMEM_REASON_OTHER_ALIGNMENT:
      return "the alignment is not the allocation's";
    case NXMEM_REASON_REPORT_FAILED:
      return "the unload query failed with a status";
    case NXMEM_REASON_REPORT_SHORT:
      return "the unload report's struct_size is too small";
    case NXMEM_REASON_REPORT_UNWRITTEN:
      return "the unload report was left unwritten";
    case NXMEM_REASON_PLUGIN_HOLDS:
      return "the plugin still holds objects";
    case NXMEM_REASON_HOST_HOLDS:
      return "the host still holds objects of this module";
    case NXMEM_REASON_STALE_HANDLE:
      return "the handle's generation has passed";
    case NXMEM_REASON_WRONG_STATE:
      return "the object is not live";
    case NXMEM_REASON_IN_USE:
      return "the object is in use";
    case NXMEM_REASON_SHORT_COMPLETION:
      return "the completion's struct_size is too small";
    case NXMEM_REASON_UNKNOWN_ALLOCATION:
      return "the completion names no allocation of this host";
    case NXMEM_REASON_OTHER_OWNER:
      return "the allocation is another allocator's";
    case NXMEM_REASON_NOT_QUEUED:
      return "the allocation's release is not outstanding";
    case NXMEM_REASON_OTHER_TICKET:
      return "the ticket is another release's";
    case NXMEM_REASON_TICKET_UNWRITTEN:
      return "no ticket was written";
    case NXMEM_REASON_TOO_MANY_RETIRED:
      return "more releases retired than there can be";
    case NXMEM_REASON_COUNT_UNWRITTEN:
      return "the count was left unwritten";
    case NXMEM_REASON_TOO_MANY:
      return "more factories reported than a plugin may publish";
    case NXMEM_REASON_LISTED_TWICE:
      return "one factory is listed twice";
    case NXMEM_REASON_SAME_NAME:
      return "two mechanisms share name and device";
    case NXMEM_REASON_OFFSET_OUTSIDE:
      return "the offset is behind the end";
    case NXMEM_REASON_BYTES_OUTSIDE:
      return "the range reaches past the end";
    case NXMEM_REASON_TOO_MANY_USERS:
      return "more calls are at it than can be counted";
    case NXMEM_REASON_TOO_MANY_RANGES:
      return "more ranges than one call may name";
    case NXMEM_REASON_MORE_THAN_POSSIBLE:
      return "more than such a range can take";
    case NXMEM_REASON_SHORT_PREFIX:
      return "the prefix handle's struct_size is too small";
    case NXMEM_REASON_NO_PREFIX_HANDLE:
      return "OK without a prefix handle";
    case NXMEM_REASON_OTHER_REQUEST:
      return "the prefix was made for another size";
    case NXMEM_REASON_OVERLAP:
      return "the address lies in an allocation that is there";
    case NXMEM_REASON_BAD_GRANULARITY:
      return "the device's granularity is no power of two, or too large";
    case NXMEM_REASON_NO_RUNG:
      return "no smaller reservation is left to try";
    case NXMEM_REASON_POISONED:
      return "a granule stays mapped because its unmap failed";
    case NXMEM_REASON_QUARANTINED:
      return "a granule is kept from being handed out";
    case NXMEM_REASON_SHARED:
      return "a granule holds the bytes of a shared prefix";
    case NXMEM_REASON_MAPPED:
      return "a granule is mapped already";
    case NXMEM_REASON_NOT_MAPPED:
      return "nothing is mapped there";
    case NXMEM_REASON_TOO_MANY_REFERENCES:
      return "more references than can be counted";
    case NXMEM_REASON_NO_REFERENCE:
      return "there is no reference to give back";
    case NXMEM_REASON_OVER_BUDGET:
      return "more than the authority's budget leaves";
    case NXMEM_REASON_OVER_SLICE:
      return "more than the authority's delegated slice leaves";
    case NXMEM_REASON_OVER_PROCESS_LIMIT:
      return "more than the process limit of the tier leaves";
    case NXMEM_REASON_SLICE_TOO_SMALL:
      return "the slice is smaller than what is taken already";
    case NXMEM_REASON_ALREADY_DELEGATED:
      return "a slice is delegated once";
    case NXMEM_REASON_ENDED:
      return "the mechanism has ended";
    case NXMEM_REASON_NOT_ENDED:
      return "the mechanism has not ended";
    case NXMEM_REASON_STILL_HELD:
      return "something of the mechanism is still held";
    case NXMEM_REASON_UNREADABLE:
      return "memory cannot be read that far";
    default:
      return "unknown";
  }
}

const char *nxmem_status_name(uint32_t status_code) {
  static const char *const names[] = {"OK",
                                      "VERSION_MISMATCH",
                                      "SHORT_STRUCT",
                                      "UNSUPPORTED_CAPABILITY",
                                      "INVALID_ARGUMENT",
                                      "INTERNAL_ERROR",
                                      "NOT_IMPLEMENTED",
                                      "DEVICE_ERROR",
                                      "OUT_OF_MEMORY",
                                      "WRONG_DEVICE",
                                      "WRONG_MECHANISM",
                                      "UNKNOWN_ALLOCATION",
                                      "RELEASE_QUARANTINED",
                                      "CALLBACK_FAILED",
                                      "BUSY"};
  return status_code < sizeof names / sizeof names[0] ? names[status_code] : "unknown";
}

typedef struct field_name {
  uint32_t offset;
  const char *name;
} field_name;

#define FIELD(type, member) \
  { offsetof(type, member), #member }

static const field_name response_fields[] = {
    FIELD(NxmemNegotiateResponse, agreed_major), FIELD(NxmemNegotiateResponse, agreed_minor),
    FIELD(NxmemNegotiateResponse, plugin_range), FIELD(NxmemNegotiateResponse, capability_flags)};

static const field_name factory_fields[] = {
    FIELD(NxmemAllocatorFactoryVtable, name), FIELD(NxmemAllocatorFactoryVtable, device),
    FIELD(NxmemAllocatorFactoryVtable, open_allocator), FIELD(NxmemAllocatorFactoryVtable, release)};

static const field_name allocator_fields[] = {
    FIELD(NxmemAllocatorVtable, mechanism_id),      FIELD(NxmemAllocatorVtable, device),
    FIELD(NxmemAllocatorVtable, capability_flags),  FIELD(NxmemAllocatorVtable, allocate),
    FIELD(NxmemAllocatorVtable, deallocate),        FIELD(NxmemAllocatorVtable, retain),
    FIELD(NxmemAllocatorVtable, release),           FIELD(NxmemAllocatorVtable, virtual_backing),
    FIELD(NxmemAllocatorVtable, shared_mapping),    FIELD(NxmemAllocatorVtable, enqueue_release),
    FIELD(NxmemAllocatorVtable, drain_releases),    FIELD(NxmemAllocatorVtable, pending_release_count),
    FIELD(NxmemAllocatorVtable, release_allocation)};

static const field_name result_fields[] = {FIELD(NxmemAllocResult, ptr), FIELD(NxmemAllocResult, owned_bytes),
                                           FIELD(NxmemAllocResult, mapped_bytes)};

static const field_name range_fields[] = {{offsetof(NxmemRangeRequest, range.offset), "offset"},
                                          {offsetof(NxmemRangeRequest, range.bytes), "bytes"}};

static const field_name prefix_fields[] = {
    FIELD(NxmemSharedPrefixHandle, mechanism_id), FIELD(NxmemSharedPrefixHandle, handle),
    FIELD(NxmemSharedPrefixHandle, device),       FIELD(NxmemSharedPrefixHandle, committed_physical_bytes),
    FIELD(NxmemSharedPrefixHandle, mapped_bytes), FIELD(NxmemSharedPrefixHandle, requested_bytes)};

static const field_name commit_fields[] = {FIELD(NxmemSharedPrefixCommitInfo, additional_owned_bytes),
                                           FIELD(NxmemSharedPrefixCommitInfo, newly_mapped_bytes),
                                           FIELD(NxmemSharedPrefixCommitInfo, granules)};

static const field_name report_fields[] = {
    FIELD(NxmemUnloadReport, live_allocators), FIELD(NxmemUnloadReport, live_allocations),
    FIELD(NxmemUnloadReport, live_views), FIELD(NxmemUnloadReport, live_capabilities),
    FIELD(NxmemUnloadReport, queued_releases)};

static const field_name host_axes[] = {{NXMEM_AXIS_ALLOCATORS, "allocators"},
                                       {NXMEM_AXIS_ALLOCATIONS, "allocations"},
                                       {NXMEM_AXIS_CALLS_INSIDE, "calls inside"},
                                       {NXMEM_AXIS_HELD_SLOTS, "callback slots"},
                                       {NXMEM_AXIS_UNPAID_DEBTS, "unpaid debts"}};

static const char *look_up(const field_name *fields, size_t count, uint32_t offset) {
  for (size_t i = 0; i < count; i++)
    if (fields[i].offset == offset) return fields[i].name;
  return NULL;
}

#define LOOK_UP(fields, offset) look_up(fields, sizeof(fields) / sizeof(fields)[0], offset)

const char *nx_field_name(nx_record record, nxmem_verdict verdict) {
  if (verdict.field == 0) return NULL;
  switch (record) {
    case NX_RECORD_RESPONSE:
      return LOOK_UP(response_fields, verdict.field);
    case NX_RECORD_FACTORY:
      return LOOK_UP(factory_fields, verdict.field);
    case NX_RECORD_ALLOCATOR:
      return LOOK_UP(allocator_fields, verdict.field);
    case NX_RECORD_RESULT:
      return LOOK_UP(result_fields, verdict.field);
    case NX_RECORD_RANGE:
      return LOOK_UP(range_fields, verdict.field);
    case NX_RECORD_PREFIX:
      return LOOK_UP(prefix_fields, verdict.field);
    case NX_RECORD_COMMIT:
      return LOOK_UP(commit_fields, verdict.field);
    case NX_RECORD_UNLOAD:
      return verdict.reason == NXMEM_REASON_HOST_HOLDS ? LOOK_UP(host_axes, verdict.field)
                                                       : LOOK_UP(report_fields, verdict.field);
    default:
      return NULL;
  }
}

void nx_device_text(NxmemDeviceId device, char out[NX_DEVICE_TEXT]) {
  static const char *const tiers[] = {
      [NXMEM_TIER_DEVICE] = "device", [NXMEM_TIER_HOST] = "host", [NXMEM_TIER_DISK] = "disk"};
  if (device.tier < sizeof tiers / sizeof tiers[0])
    (void)snprintf(out, NX_DEVICE_TEXT, "%s:%" PRIu32, tiers[device.tier], device.index);
  else
    (void)snprintf(out, NX_DEVICE_TEXT, "%" PRIu32 ":%" PRIu32, device.tier, device.index);
}
