/*
 * negotiate.c: both halves of the agreement.
 *
 * Attackers: short or inverted requests; answers that lie in any field.
 * Promise: an accepted answer lies inside what both sides offered; a refusal says which field did not.
 */
#include "nxmem/negotiate.h"

#include <stddef.h>

#include "load.h"
#include "nxmem/capability.h"
#include "nxmem/prefix.h"
#include "verdict_make.h"

enum { AT_HOST_RANGE = 8, AT_AGREED_MAJOR = 4, AT_AGREED_MINOR = 8, AT_PLUGIN_RANGE = 16, AT_RESPONSE_FLAGS = 32 };
#ifndef __FRAMAC__
_Static_assert(NXMEM_REQUEST_BYTES == offsetof(NxmemNegotiateRequest, host_capability_flags) + 8, "request");
_Static_assert(NXMEM_RESPONSE_BYTES == offsetof(NxmemNegotiateResponse, capability_flags) + 8, "response");
_Static_assert(AT_HOST_RANGE == offsetof(NxmemNegotiateRequest, host_range), "host_range");
_Static_assert(AT_AGREED_MAJOR == offsetof(NxmemNegotiateResponse, agreed_major), "agreed_major");
_Static_assert(AT_AGREED_MINOR == offsetof(NxmemNegotiateResponse, agreed_minor), "agreed_minor");
_Static_assert(AT_PLUGIN_RANGE == offsetof(NxmemNegotiateResponse, plugin_range), "plugin_range");
_Static_assert(AT_RESPONSE_FLAGS == offsetof(NxmemNegotiateResponse, capability_flags), "capability_flags");
#endif

/*@ assigns \nothing;
    ensures least: \result == NX_LEAST(a, b); */
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/*@ assigns \nothing;
    ensures most: \result == NX_MOST(a, b); */
static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

int nxmem_range_is_valid(const NxmemVersionRange *range) {
  return range->major_min <= range->major_max && range->minor_min <= range->minor_max;
}

/* Which half of an inverted range to show: major first. */
/*@ requires range_readable: \valid_read(range);
    requires offset_fits: offset <= 1024;
    assigns \nothing;
    ensures refused: NX_INVERTED(\result, *range, offset); */
static nxmem_verdict inverted(const NxmemVersionRange *range, uint32_t offset) {
  if (range->major_min > range->major_max)
    return nx_verdict(NXMEM_REASON_INVERTED_RANGE, offset, range->major_min, range->major_max);
  return nx_verdict(NXMEM_REASON_INVERTED_RANGE, offset + 8u, range->minor_min, range->minor_max);
}

nxmem_verdict nxmem_request_take(NXMEM_UNTRUSTED NxmemNegotiateRequest *src, NxmemNegotiateRequest *out) {
  const nxmem_verdict address = nxmem_check_table_address((uintptr_t)src);
  if (address.reason != NXMEM_REASON_NONE) return address;
  const uint32_t size = NX_LOAD(NxmemNegotiateRequest, src, struct_size);
  if (size < NXMEM_REQUEST_BYTES) return nx_verdict(NXMEM_REASON_SHORT_REQUEST, 0u, size, NXMEM_REQUEST_BYTES);
  out->struct_size = size;
  out->reserved = 0u;
  out->host_range.major_min = NX_LOAD(NxmemNegotiateRequest, src, host_range.major_min);
  out->host_range.major_max = NX_LOAD(NxmemNegotiateRequest, src, host_range.major_max);
  out->host_range.minor_min = NX_LOAD(NxmemNegotiateRequest, src, host_range.minor_min);
  out->host_range.minor_max = NX_LOAD(NxmemNegotiateRequest, src, host_range.minor_max);
  out->host_capability_flags = NX_LOAD(NxmemNegotiateRequest, src, host_capability_flags);
  return nx_accept();
}

/*@ requires response_writable: \valid(response);
    requires own_readable: \valid_read(own);
    requires apart: \separated(response, own);
    assigns *response;
    ensures header: response->struct_size == 40 && response->reserved == 0;
    ensures own_range: NX_RANGE_COPIED(response->plugin_range, *own);
    ensures agreed: NX_AGREED(response, major, minor, flags); */
static void answer(NxmemNegotiateResponse *response, const NxmemVersionRange *own, uint32_t major, uint32_t minor,
                   uint64_t flags) {
  response->struct_size = NXMEM_RESPONSE_BYTES;
  response->agreed_major = major;
  response->agreed_minor = minor;
  response->reserved = 0u;
  response->plugin_range.major_min = own->major_min;
  response->plugin_range.major_max = own->major_max;
  response->plugin_range.minor_min = own->minor_min;
  response->plugin_range.minor_max = own->minor_max;
  response->capability_flags = flags;
}

/* The best version both ranges hold, or why there is none. */
/*@ requires ranges_readable: \valid_read(host) && \valid_read(own);
    requires outputs_writable: \valid(major) && \valid(minor);
    requires apart: \separated(major, minor, host) && \separated(major, minor, own);
    assigns *major, *minor;
    behavior none:
      assumes apart_versions: !NX_COMMON(*host, *own);
      assigns \nothing;
      ensures refused: NX_COMMON_REFUSED(\result, *host, *own);
    behavior common:
      assumes meeting: NX_COMMON(*host, *own);
      ensures accepted: NX_ACCEPTED(\result);
      ensures major: *major == NX_BEST_MAJOR(*host, *own);
      ensures minor: *minor == NX_BEST_MINOR(*host, *own);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict common_version(const NxmemVersionRange *host, const NxmemVersionRange *own, uint32_t *major,
                                    uint32_t *minor) {
  if (!nxmem_range_is_valid(host)) return inverted(host, AT_HOST_RANGE);
  if (!nxmem_range_is_valid(own)) return inverted(own, 0u);
  const uint32_t best_major = smaller(host->major_max, own->major_max);
  const uint32_t least_major = larger(host->major_min, own->major_min);
  if (best_major < least_major) return nx_verdict(NXMEM_REASON_NO_COMMON_MAJOR, AT_HOST_RANGE, best_major, least_major);
  const uint32_t best_minor = smaller(host->minor_max, own->minor_max);
  const uint32_t least_minor = larger(host->minor_min, own->minor_min);
  if (best_minor < least_minor)
    return nx_verdict(NXMEM_REASON_NO_COMMON_MINOR, AT_HOST_RANGE + 8u, best_minor, least_minor);
  *major = best_major;
  *minor = best_minor;
  return nx_accept();
}

nxmem_verdict nxmem_negotiate_decide(const NxmemNegotiateRequest *request, const nxmem_offer *own,
                                     NxmemNegotiateResponse *response) {
  uint32_t major = 0u;
  uint32_t minor = 0u;
  const nxmem_verdict version = common_version(&request->host_range, &own->range, &major, &minor);
  if (version.reason != NXMEM_REASON_NONE) {
    answer(response, &own->range, 0u, 0u, 0u);
    return version;
  }
  const uint64_t flags = nxmem_caps_effective(own->capability_flags, request->host_capability_flags, minor);
  if ((flags & NXMEM_CAP_ALLOCATOR) == 0u) {
    answer(response, &own->range, 0u, 0u, 0u);
    return nx_verdict(NXMEM_REASON_NO_ALLOCATOR, AT_RESPONSE_FLAGS, flags, NXMEM_CAP_ALLOCATOR);
  }
  answer(response, &own->range, major, minor, flags);
  return nx_accept();
}

uint32_t nxmem_response_extent(uint32_t room) {
  if (room >= NXMEM_RESPONSE_BYTES) return NXMEM_RESPONSE_BYTES;
  if (room >= AT_RESPONSE_FLAGS) return AT_RESPONSE_FLAGS;
  return room - room % 4u;
}

void nxmem_response_take(NXMEM_UNTRUSTED NxmemNegotiateResponse *src, NxmemNegotiateResponse *out) {
  out->struct_size = NX_LOAD(NxmemNegotiateResponse, src, struct_size);
  out->agreed_major = NX_LOAD(NxmemNegotiateResponse, src, agreed_major);
  out->agreed_minor = NX_LOAD(NxmemNegotiateResponse, src, agreed_minor);
  out->reserved = 0u;
  out->plugin_range.major_min = NX_LOAD(NxmemNegotiateResponse, src, plugin_range.major_min);
  out->plugin_range.major_max = NX_LOAD(NxmemNegotiateResponse, src, plugin_range.major_max);
  out->plugin_range.minor_min = NX_LOAD(NxmemNegotiateResponse, src, plugin_range.minor_min);
  out->plugin_range.minor_max = NX_LOAD(NxmemNegotiateResponse, src, plugin_range.minor_max);
  out->capability_flags = NX_LOAD(NxmemNegotiateResponse, src, capability_flags);
}

/*@ assigns \nothing;
    behavior outside:
      assumes out_of_range: !(low <= found <= high);
      ensures refused: NX_OUTSIDE(\result, reason, offset, found, low, high);
    behavior inside:
      assumes in_range: low <= found <= high;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_between(nxmem_reason reason, uint32_t offset, uint32_t found, uint32_t low, uint32_t high) {
  if (found < low) return nx_verdict(reason, offset, found, low);
  if (found > high) return nx_verdict(reason, offset, found, high);
  return nx_accept();
}

/* The agreed version against one side's range. */
/*@ requires response_readable: \valid_read(response);
    requires range_readable: \valid_read(range);
    assigns \nothing;
    behavior outside:
      assumes out_of_range: !NX_VERSION_INSIDE(response, *range);
      ensures refused: NX_VERSION_REFUSED(\result, response, *range);
    behavior inside:
      assumes in_range: NX_VERSION_INSIDE(response, *range);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_version(const NxmemNegotiateResponse *response, const NxmemVersionRange *range) {
  const nxmem_verdict major = check_between(NXMEM_REASON_MAJOR_OUT_OF_RANGE, AT_AGREED_MAJOR, response->agreed_major,
                                            range->major_min, range->major_max);
  if (major.reason != NXMEM_REASON_NONE) return major;
  return check_between(NXMEM_REASON_MINOR_OUT_OF_RANGE, AT_AGREED_MINOR, response->agreed_minor, range->minor_min,
                       range->minor_max);
}

/*@ assigns \nothing;
    behavior beyond:
      assumes misfit: !NX_FLAGS_FIT(flags, offered, minor);
      ensures refused: NX_FLAGS_REFUSED(\result, flags, offered, minor);
    behavior inside:
      assumes fit: NX_FLAGS_FIT(flags, offered, minor);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_answered_flags(uint64_t flags, uint64_t offered, uint32_t minor) {
  if ((flags & NXMEM_CAPS_KNOWN) != flags)
    return nx_verdict(NXMEM_REASON_UNKNOWN_CAPABILITY, AT_RESPONSE_FLAGS, flags, NXMEM_CAPS_KNOWN);
  if ((flags & offered) != flags) return nx_verdict(NXMEM_REASON_CAPS_BEYOND_OFFER, AT_RESPONSE_FLAGS, flags, offered);
  if ((flags & NXMEM_CAP_ALLOCATOR) == 0u)
    return nx_verdict(NXMEM_REASON_NO_ALLOCATOR, AT_RESPONSE_FLAGS, flags, NXMEM_CAP_ALLOCATOR);
  const uint64_t defined = nxmem_caps_at(minor);
  if ((flags & defined) != flags) return nx_verdict(NXMEM_REASON_CAPS_BEYOND_LEVEL, AT_RESPONSE_FLAGS, flags, defined);
  return nx_accept();
}

nxmem_verdict nxmem_negotiate_judge(uint32_t status_code, const NxmemNegotiateResponse *response,
                                    const nxmem_offer *own) {
  if (status_code != NXMEM_STATUS_OK) return nx_verdict(NXMEM_REASON_PLUGIN_REFUSED, 0u, status_code, NXMEM_STATUS_OK);
  if (response->struct_size < NXMEM_RESPONSE_BYTES)
    return nx_verdict(NXMEM_REASON_SHORT_RESPONSE, 0u, response->struct_size, NXMEM_RESPONSE_BYTES);
  if (!nxmem_range_is_valid(&response->plugin_range)) return inverted(&response->plugin_range, AT_PLUGIN_RANGE);
  const nxmem_verdict ours = check_version(response, &own->range);
  if (ours.reason != NXMEM_REASON_NONE) return ours;
  const nxmem_verdict theirs = check_version(response, &response->plugin_range);
  if (theirs.reason != NXMEM_REASON_NONE) return theirs;
  return check_answered_flags(response->capability_flags, own->capability_flags, response->agreed_minor);
}
