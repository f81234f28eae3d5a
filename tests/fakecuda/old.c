/*
 * old.c: a CUDA driver from before cuGetProcAddress.
 *
 * Attackers: none.
 * Promise: it can be loaded and has none of what the plugin looks for.
 */
__attribute__((visibility("default"))) unsigned int cuInit(unsigned int flags);

unsigned int cuInit(unsigned int flags) { return flags; }
