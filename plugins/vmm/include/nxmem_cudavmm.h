/* nxmem_cudavmm.h: what a program tells libnxmem_cudavmm.so about its streams and its graph captures, declared once beside the contract. */
#ifndef NXMEM_CUDAVMM_H
#define NXMEM_CUDAVMM_H

#include "nxmem/streams.h"

#endif /* NXMEM_CUDAVMM_H */
