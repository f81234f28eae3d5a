/*
 * crash.h: which step a plugin was in when it took the process down.
 * Attackers: plugin code that faults, aborts or runs out of stack.
 * Promise: one line on stderr, also when nothing else could be written; the process still dies of the same signal.
 */
#ifndef NXMEM_CLI_CRASH_H
#define NXMEM_CLI_CRASH_H

/* From here on. For the thread that calls also when its stack is used up. */
void nx_crash_watch(void);

/* What is entered now; both are read when the crash comes and must live until the next call. mechanism may be NULL. */
void nx_crash_entering(const char *step, const char *mechanism);

#endif /* NXMEM_CLI_CRASH_H */
