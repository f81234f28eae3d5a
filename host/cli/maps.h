/*
 * maps.h: this process's own mappings: whether a file is among them, and which memory was here before a plugin.
 * Attackers: a plugin that unlinks, renames or oddly names its file, or answers with an address of ours.
 * Promise: a file is known by device and inode, never by name; "not mapped" is said only after a look.
 */
#ifndef NXMEM_CLI_MAPS_H
#define NXMEM_CLI_MAPS_H

#include <stddef.h>
#include <stdint.h>

/* [start, end) */
typedef struct nx_range {
  uint64_t start;
  uint64_t end;
} nx_range;

/* A file as the kernel names it among mappings. */
typedef struct nx_mapped_file {
  unsigned major, minor;
  uint64_t inode; /* 0: not known */
} nx_mapped_file;

/*
 * What mappings of this file will be called, found out by mapping it once: on overlay and some other file systems
 * the device among mappings is not the one that stat() tells.
 */
nx_mapped_file nx_mapped_as(const char *path);

/* Whether any mapping of this process is of that file: 1 or 0, -1 when it is not known or the kernel does not say. */
int nx_is_mapped(const nx_mapped_file *file);

/* Memory that no plugin may hand out: the images of the command and its libraries, and the stack. */
typedef struct nx_ours {
  nx_range *images;
  size_t count;
  nx_range stack; /* it grows: nx_ours_look() again before it is asked about */
} nx_ours;

/* Before a plugin is loaded, so that none of its own images is among them. The caller owes nx_ours_free(). */
void nx_ours_begin(nx_ours *ours);
void nx_ours_look(nx_ours *ours);
void nx_ours_free(nx_ours *ours);

/* What `bytes` (at least 1) at `start` overlap, in words; NULL: nothing of ours. */
const char *nx_ours_overlap(const nx_ours *ours, uint64_t start, uint64_t bytes);

#endif /* NXMEM_CLI_MAPS_H */
