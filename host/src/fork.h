/* Is this a forked child of the process that created the first host? Private to the host. */
#ifndef NX_FORK_H
#define NX_FORK_H

#include <stdatomic.h>

/* Begin to notice forks; called when the first host is created. [any-thread] */
void nx_fork_watch(void);

/* In a page that the kernel empties in a forked child (MADV_WIPEONFORK, Linux 4.14): 1 in the process that set it up. */
extern _Atomic(atomic_uchar *) nx_fork_mark;

static inline int nx_is_forked(void) {
  return atomic_load_explicit(atomic_load_explicit(&nx_fork_mark, memory_order_acquire), memory_order_relaxed) == 0;
}

#endif /* NX_FORK_H */
