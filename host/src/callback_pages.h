/*
 * The callback tables that plugins see: one for each allocator slot, never unmapped, read-only for everybody but the
 * host. Private to the host.
 */
#ifndef NX_CALLBACK_PAGES_H
#define NX_CALLBACK_PAGES_H

#include "nxmem_memory_abi.h"
#include "objects.h"

/* How the plugins' view is kept from becoming writable. */
typedef enum nx_pages_kind {
  NX_PAGES_NONE,   /* there are no pages */
  NX_PAGES_SEALED, /* of a sealed file: no mprotect makes it writable */
  NX_PAGES_DOUBLE  /* mapped twice: a plugin that calls mprotect may make it writable */
} nx_pages_kind;

/*
 * Make the pages, unless they are there. 0 where this system gives none; tried again at the next call.
 * [any-thread] [blocks: memfd_create, mmap]
 */
int nx_callback_pages_make(void);

nx_pages_kind nx_callback_pages_kind(void);

/* The table of an allocator slot: as plugins see it, and as the host writes it. Only after nx_callback_pages_make. */
const NxmemHostCallbacks *nx_callback_page_shown(uint32_t slot);
NxmemHostCallbacks *nx_callback_page_written(uint32_t slot);

#endif /* NX_CALLBACK_PAGES_H */
