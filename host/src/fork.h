/* Begin to notice forks; called when the first host is created. Private to the host. [any-thread] */
#ifndef NX_FORK_H
#define NX_FORK_H

void nx_fork_watch(void);

#endif /* NX_FORK_H */
