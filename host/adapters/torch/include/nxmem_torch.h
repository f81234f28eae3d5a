/*
 * nxmem_torch.h: PyTorch's pluggable CUDA allocator, served by any nxmem plugin through the host library.
 *
 * Attackers: the plugin, as far as libnxmem lets anything through; a caller that frees what is not its own, twice, or with another size or device.
 * Promise: memory that was freed is used again only behind the work that its stream had been given; what cannot be given back is kept and counted; no pointer
 * whatsoever makes free crash; no call waits for a device.
 *
 * PyTorch loads the library by path and cannot configure it, so the plugin is named by nxmem_torch_configure(), or by the environment, read once at the first
 * call: NXMEM_TORCH_PLUGIN (an absolute path) and NXMEM_TORCH_MECHANISM (may be left out where the plugin has mechanisms of one name only). The environment of a
 * process that has more rights than its caller (AT_SECURE) is not read. README.md beside this header shows the Python lines.
 *
 * Tags as in nxmem.h.
 */
#ifndef NXMEM_TORCH_H
#define NXMEM_TORCH_H

#include <stdint.h>
#include <sys/types.h>

#include "nxmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cudaStream_t, without a CUDA header. NULL is the default stream; cudaStreamLegacy is taken for NULL. */
struct CUstream_st;
typedef struct CUstream_st *nxmem_torch_stream;

/* ---- What PyTorch calls ------------------------------------------------------------------------------------------ */

/*
 * Memory of a device, aligned to 512 bytes, for work on this stream. The first use of a stream registers it with a plugin that exports NxmemCudaAddStream
 * (nxmem/streams.h). NULL for a size of 0, and where it fails: nxmem_torch_last_error() says why. Before that, releases whose work is done are drained once more
 * and the plugin is asked again. PyTorch does not look for NULL: its next use of the memory fails.
 *
 * A plugin of a device that does not export NxmemCudaAddStream orders releases behind the default stream alone: other streams are refused. So is
 * cudaStreamPerThread wherever streams are registered: which stream it is depends on the thread that asks.
 *
 * [any-thread] [runs plugin code] [blocks: the first call, while another thread loads the plugin or opens the device]
 */
NXMEM_PUBLIC void *nxmem_torch_malloc(ssize_t size, int device, nxmem_torch_stream stream);

/*
 * Give memory back behind the work that the stream has been given. Size and device must be those it was allocated with; anything else, a pointer that is not live
 * and a second free change nothing and are counted. NULL is fine. A mechanism without DEFERRED_RELEASE is taken for memory of the host alone, and gives back at once.
 *
 * [any-thread] [runs plugin code]
 */
NXMEM_PUBLIC void nxmem_torch_free(void *ptr, ssize_t size, int device, nxmem_torch_stream stream);

/* For set_record_stream_fn(): work on this stream uses the memory as well, so that its release waits for it. [any-thread] [runs plugin code] */
NXMEM_PUBLIC void nxmem_torch_record_stream(void *ptr, nxmem_torch_stream stream);

/* For set_reset_fn(), which empty_cache() calls: drain what is done, of all devices, without waiting. [any-thread] [runs plugin code] */
NXMEM_PUBLIC void nxmem_torch_reset(void);

/* ---- What a program may call ------------------------------------------------------------------------------------- */

/*
 * Name the plugin and load it, instead of the environment.
 *
 * path       Absolute; as nxmem_plugin_open() takes it. Copied by nobody: the file is loaded before this returns.
 * mechanism  Its name; NULL where the plugin has mechanisms of one name only.
 *
 * NXMEM_ERR_BUSY               a plugin is loaded already, or another thread is loading one.
 * NXMEM_ERR_UNKNOWN_MECHANISM  no mechanism of that name, or several names and none given; nothing stays loaded.
 * What nxmem_host_create() and nxmem_plugin_open() answer.
 *
 * [any-thread] [runs plugin code]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_torch_configure(const char *path, const char *mechanism);

/*
 * Before a stream is destroyed: nothing is recorded on it any more. NXMEM_ERR_INVALID_ARGUMENT where it was not registered here; NXMEM_ERR_PLUGIN where the
 * plugin refuses. [any-thread] [runs plugin code]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_torch_forget_stream(int device, nxmem_torch_stream stream);

/* The latest error of the calling thread, one line; "" where there was none. Valid until the next call on this thread. [any-thread] */
NXMEM_PUBLIC const char *nxmem_torch_last_error(void);

/* Since the library was loaded, of all devices. A snapshot of moving things. */
typedef struct nxmem_torch_counts {
  uint64_t live_blocks;
  uint64_t live_bytes;
  uint64_t mallocs;          /* that gave memory */
  uint64_t failed_mallocs;   /* sizes of 0 are none */
  uint64_t retried_mallocs;  /* that a drain under memory pressure helped */
  uint64_t frees;            /* of live blocks */
  uint64_t queued_frees;     /* of these: queued behind their stream */
  uint64_t drained;          /* of these: given back by a drain */
  uint64_t pending;          /* of these: neither given back nor quarantined now */
  uint64_t kept_blocks;      /* freed, but the plugin or a stream refuses: tried again at later calls */
  uint64_t lost_blocks;      /* freed, and quarantined by the host */
  uint64_t foreign_frees;    /* of pointers that are not live here */
  uint64_t mismatched_frees; /* of another size or device: the block stays live */
  uint64_t late_calls;       /* after exit() began, or in a forked child: nothing was done */
  uint64_t streams;          /* registered now */
} nxmem_torch_counts;

/* [any-thread] */
NXMEM_PUBLIC void nxmem_torch_count(nxmem_torch_counts *out);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_TORCH_H */
