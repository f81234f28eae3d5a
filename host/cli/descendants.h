/*
 * descendants.h: processes that plugin code left behind, whatever it did to get away.
 * Attackers: that code: it forks, leaves its group or session, ends its parent, forks faster than it is ended.
 * Promise: what was there before is left alone; the rest is ended, or as much of it as a thousand rounds reach.
 */
#ifndef NXMEM_CLI_DESCENDANTS_H
#define NXMEM_CLI_DESCENDANTS_H

#include <stddef.h>

/* From here on orphans come to this process. Children that it has already, of a shell that became it, are remembered. */
void nx_descendants_adopt(void);

/* How many that came since run on by themselves a moment later, of those whose parent is gone: children of theirs not counted. */
size_t nx_descendants_left(void);

/* Ends and reaps all that came since. A group is better ended first, by kill(), in one call that no fork slips past. */
void nx_descendants_end(void);

#endif /* NXMEM_CLI_DESCENDANTS_H */
