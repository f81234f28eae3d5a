/*
 * identity.c: Eva drivers of nxmem/identity.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a peer that answers for another device.
 * Promise: any identities, on both sides.
 */
#include "nxmem/identity.h"

#include "support.h"

static NxmemDeviceId any_device(void) {
  NxmemDeviceId device;
  eva_fill(&device, sizeof(device));
  return device;
}

void eva_nxmem_check_tier(void) { (void)nxmem_check_tier(any32); }

void eva_nxmem_same_device(void) { (void)nxmem_same_device(any_device(), any_device()); }

void eva_nxmem_check_device(void) { (void)nxmem_check_device(any_device(), any_device()); }

void eva_nxmem_check_identity(void) { (void)nxmem_check_identity(any64, any_device(), any64, any_device()); }

void eva_nxmem_tier_is_left_out(void) { (void)nxmem_tier_is_left_out(any32, any32, any32); }
