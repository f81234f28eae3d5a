/*
 * pressure.h: allocation while this process gets no more memory.
 * Attackers: a plugin that does not expect to be refused.
 * Promise: the limit is gone when this returns; whatever was allocated is the caller's to give back.
 */
#ifndef NXMEM_CONFORM_PRESSURE_H
#define NXMEM_CONFORM_PRESSURE_H

#include "conform/slots.h"

typedef struct nx_pressed {
  nx_block *blocks; /* static */
  uint32_t count;
  uint32_t code; /* the last answer; OK: it was never refused */
} nx_pressed;

/* 1 MiB after 1 MiB until it is refused: what the plugin had in reserve is served first. Once per child. */
nx_pressed nx_press(const nx_opened *opened);

#endif /* NXMEM_CONFORM_PRESSURE_H */
