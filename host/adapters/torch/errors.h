/* Errors of the adapter: for the calling thread, and once per kind on stderr. Private to the adapter. */
#ifndef NX_TORCH_ERRORS_H
#define NX_TORCH_ERRORS_H

#include "nxmem.h"

typedef enum nx_torch_kind {
  NX_TORCH_CONFIGURE, /* no plugin, or it cannot be loaded */
  NX_TORCH_DEVICE,    /* a device that the plugin does not serve, or that cannot be opened */
  NX_TORCH_STREAM,    /* a stream that releases cannot be ordered behind */
  NX_TORCH_SIZE,
  NX_TORCH_MEMORY,   /* the plugin gives none */
  NX_TORCH_FOREIGN,  /* a free of what is not live */
  NX_TORCH_MISMATCH, /* a free with another size or device */
  NX_TORCH_RELEASE,  /* a block that cannot be given back */
  NX_TORCH_LATE,     /* exit() has begun, or this is a forked child */
  NX_TORCH_KINDS
} nx_torch_kind;

/* One line: what a function of the adapter says, and what the host said about it where there is such an error. */
void nx_torch_report(nx_torch_kind kind, const nxmem_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* NX_TORCH_ERRORS_H */
