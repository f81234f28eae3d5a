/*
 * cuda_load.h: the driver's library and its entry points.
 *
 * Attackers: a machine without a driver, a driver that is too old or lacks an entry point.
 * Promise: either every entry point is there, or the reason says which thing is missing.
 */
#ifndef NX_CUDA_LOAD_H
#define NX_CUDA_LOAD_H

#include "cuda_api.h"

enum { NX_CUDA_WHY = 200 };

#define NX_CUDA_MEMBER(name, parameters) nx_cuda_result(*name) parameters;
typedef struct nx_cuda_calls {
  NX_CUDA_CALLS(NX_CUDA_MEMBER)
} nx_cuda_calls;
#undef NX_CUDA_MEMBER

/*
 * Find libcuda.so.1 and all entry points. 1, or 0 with `why` written. The library stays in the process, as whatever else uses it expects: the driver has no
 * end but the process's.
 */
int nx_cuda_load(nx_cuda_calls *out, char why[NX_CUDA_WHY]);

/*
 * The driver ends before the process does: behind its first answer of DEINITIALIZED it is not called again. 1 where it has ended. Every result that no
 * nx_cuda_answer() sees is noted here.
 */
int nx_cuda_note_end(nx_cuda_result result);
int nx_cuda_has_ended(void);

#endif /* NX_CUDA_LOAD_H */
