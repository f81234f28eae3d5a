/*
 * gate.h: what all engines on one device share: its capture gate, and whether it is lost.
 *
 * Attackers: a program that captures a graph while other threads commit and release; one that leaves more often than it entered.
 * Promise: while the gate is held no call that synchronises the device is made; a section that is open is never made to wait; a device is lost once.
 */
#ifndef NX_VMM_GATE_H
#define NX_VMM_GATE_H

#include <stdint.h>

typedef struct nx_gate nx_gate;

/* The device's gate, one reference more; NULL: out of memory. It is forgotten, loss and all, when nobody refers to it or holds it. */
nx_gate *nx_gate_take(uint32_t tier, uint32_t index);
void nx_gate_drop(nx_gate *gate);

/* Open a section: 1, or 0 while a capture holds the gate or waits for it. */
int nx_gate_open_section(nx_gate *gate);
void nx_gate_close_section(nx_gate *gate);

/* Captures that hold the gate or wait for it. */
uint64_t nx_gate_captures(const nx_gate *gate);

/* 1 for the first who says so. */
int nx_gate_lose(nx_gate *gate);
int nx_gate_is_lost(const nx_gate *gate);
/* The same by device: 0 also where nobody has a gate on it. */
int nx_gate_lost_on(uint32_t tier, uint32_t index);

/*
 * What a plugin exports for its programs. Enter waits for the sections that are open and for nothing else; counted; may be left from another thread.
 * NXMEM_STATUS_OK, OUT_OF_MEMORY, or INVALID_ARGUMENT: left more often than entered.
 */
uint32_t nx_vmm_gate_enter(uint32_t tier, uint32_t index);
uint32_t nx_vmm_gate_leave(uint32_t tier, uint32_t index);

#endif /* NX_VMM_GATE_H */
