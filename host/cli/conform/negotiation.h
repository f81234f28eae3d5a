/*
 * negotiation.h: what the two families about NxmemNegotiate share.
 * Attackers: the plugin's answer.
 * Promise: the response is filled with ones first, so that what is left unwritten shows.
 */
#ifndef NXMEM_CONFORM_NEGOTIATION_H
#define NXMEM_CONFORM_NEGOTIATION_H

#include "conform/plugin.h"

typedef struct nx_negotiated {
  uint32_t code;
  NxmemNegotiateResponse answer;
} nx_negotiated;

nx_negotiated nx_negotiate_with(nx_trial *trial, const NxmemNegotiateRequest *offer);

#endif /* NXMEM_CONFORM_NEGOTIATION_H */
