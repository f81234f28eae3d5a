/* What a process has put on itself. Private to the library. */
#ifndef NX_ISOLATION_H
#define NX_ISOLATION_H

#include "nxmem.h"

typedef enum nx_isolation { NX_ISOLATION_NONE, NX_ISOLATION_NO_NEW_PRIVS, NX_ISOLATION_SECCOMP } nx_isolation;

/* NXMEM_OK where every thread has it; NXMEM_ERR_NOT_ALLOWED. `shown` is the file that asks for it. [any-thread] */
nxmem_result nx_isolation_check(nx_isolation needed, const char *shown, nxmem_error *error);

#endif /* NX_ISOLATION_H */
