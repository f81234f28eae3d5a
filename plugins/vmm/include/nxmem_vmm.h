/* nxmem_vmm.h: what the virtual-memory plugins export beyond the contract: their statistics, declared once beside the contract. */
#ifndef NXMEM_VMM_H
#define NXMEM_VMM_H

#include "nxmem/statistics.h"

#endif /* NXMEM_VMM_H */
