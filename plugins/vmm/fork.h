/*
 * fork.h: is this process a forked child of the one that opened the module's first allocator?
 *
 * Attackers: a child that inherits locks, mappings and books that are its parent's.
 * Promise: after a fork, by whatever call, the answer in the child is yes and costs one load.
 */
#ifndef NX_VMM_FORK_H
#define NX_VMM_FORK_H

/* Before the first allocator is opened; more often does no harm. 0: there is no page for the mark, or no kernel that empties it (Linux 4.14). */
int nx_fork_watch(void);

int nx_is_forked(void);

#endif /* NX_VMM_FORK_H */
