/*
 * streams.h: exports that a plugin of a device may have beside the contract's three: streams and graph captures, found by name (nxmem_plugin_symbol() of the
 * host library). A stream is a CUstream (cudaStream_t), passed as void *, so that no CUDA header is needed.
 *
 * Attackers: none beyond the plugin itself, whose code these are.
 * Promise: none. A plugin without the exports orders queued releases as its contract says, behind the device's default stream alone.
 */
#ifndef NXMEM_STREAMS_H
#define NXMEM_STREAMS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Streams whose work may touch a device's allocations: a queued release waits for what all of them had been given before it. With none registered it waits for the
 * legacy default stream alone. A stream is registered before it is first used and unregistered before it is destroyed. 0, or a NXMEM_STATUS_... code:
 * registered already or not at all (INVALID_ARGUMENT), no such device, OUT_OF_MEMORY. Any thread.
 */
uint32_t NxmemCudaAddStream(uint32_t device_index, void *stream);
uint32_t NxmemCudaRemoveStream(uint32_t device_index, void *stream);

/*
 * While a program captures a graph, calls that synchronise the device would end the capture. Between enter and leave they are refused with BUSY and change nothing.
 * Enter waits for no one but calls already inside the driver; nests, and may be left from another thread. Leaving more often than entering: INVALID_ARGUMENT.
 */
uint32_t NxmemCudaCaptureEnter(uint32_t device_index);
uint32_t NxmemCudaCaptureLeave(uint32_t device_index);

#define NXMEM_ADD_STREAM_EXPORT "NxmemCudaAddStream"
#define NXMEM_REMOVE_STREAM_EXPORT "NxmemCudaRemoveStream"
typedef uint32_t (*NxmemStreamFunction)(uint32_t device_index, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_STREAMS_H */
