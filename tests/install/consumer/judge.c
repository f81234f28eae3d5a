/*
 * judge.c: the proved core alone, without the host library.
 * Attackers: none.
 * Promise: prints 3, the sum that the core makes of 1 and 2.
 */
#include <nxmem/count.h>
#include <nxmem_memory_abi.h>
#include <stdio.h>

int main(void) { return printf("%d\n", (int)nxmem_count_add(1, 2)) < 0; }
