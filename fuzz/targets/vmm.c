/*
 * vmm.c: the virtual-memory engine over a driver that answers as the input says.
 * Attackers: a driver that fails at any call, in any way, once or for good, or lies about its device; a host with ranges, names and orders of any kind, also from
 * inside its own callbacks.
 * Promise: after each step the engine's figures, the driver's books and a reference model agree; what is kept back a failed call explains; at the end nothing is left.
 *
 * Input: vmm/vmm.h.
 */
#include "vmm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  vm_run(data, size);
  return 0;
}
