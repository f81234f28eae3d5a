/*
 * fault_negotiation.c: modules whose answer in the negotiation is a lie.
 *
 * Attackers: these rows. Each edits an honest answer in one field.
 * Promise: a field that a row does not name says what an honest plugin would say.
 */
#include "fault_rows.h"

#define KNOWN_CAPS 31ull
#define FROM_THE_FUTURE (1ull << 40)

static void in_8_bytes(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->struct_size = 8u;
}

static void in_0_bytes(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->struct_size = 0u;
}

static void inverted(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->plugin_range.minor_min = response->plugin_range.minor_max + 1u;
}

/* One above the host's highest, and a range of its own that holds it. */
static void minor_beyond(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  response->agreed_minor = request->host_range.minor_max + 1u;
  if (response->plugin_range.minor_max < response->agreed_minor)
    response->plugin_range.minor_max = response->agreed_minor;
}

static void minor_endless(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->agreed_minor = UINT32_MAX;
  response->plugin_range.minor_max = UINT32_MAX;
}

/* As a host that zeroed the record finds it after a plugin that wrote no version. */
static void no_versions(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->agreed_major = 0u;
  response->agreed_minor = 0u;
}

/* Every known bit: a lie only to a host that offered fewer. */
static void every_known_bit(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->capability_flags = KNOWN_CAPS;
}

static void unknown_bit(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->capability_flags |= FROM_THE_FUTURE;
}

static void no_allocator(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->capability_flags &= ~NXMEM_CAP_ALLOCATOR;
}

/* A bit of minor 1 at minor 0. The host must offer the bit and minor 0, or another rule refuses first. */
static void beyond_level(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  (void)request;
  response->agreed_minor = 0u;
  response->capability_flags = NX_CAPS;
}

static const nx_fault rows[] = {
    {.name = "refuse-negotiation", .negotiate_status = NXMEM_STATUS_VERSION_MISMATCH},
    {.name = "short-response", .edit_response = in_8_bytes},
    {.name = "zero-response", .edit_response = in_0_bytes},
    {.name = "inverted-range", .edit_response = inverted},
    {.name = "minor-beyond", .edit_response = minor_beyond},
    {.name = "minor-endless", .edit_response = minor_endless},
    {.name = "major-zero", .edit_response = no_versions},
    {.name = "caps-beyond-offer", .edit_response = every_known_bit},
    {.name = "unknown-caps", .edit_response = unknown_bit},
    {.name = "no-allocator-cap", .edit_response = no_allocator},
    {.name = "caps-beyond-level", .edit_response = beyond_level},
};
const nx_fault_group nx_negotiation_faults = NX_GROUP(rows);
