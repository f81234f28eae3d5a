/*
 * load.h: private to the core: the one way to load a field of a record that the other side may be writing.
 *
 * Attackers: a peer that rewrites a field between two loads of it.
 * Promise: NX_LOAD(type, src, field) is src->field, one load. In a function with an NXMEM_UNTRUSTED parameter nothing else may
 * dereference it (the proof gate looks), and the proofs of the racing world replace the macro by one that counts each offset's loads.
 */
#ifndef NX_LOAD_H
#define NX_LOAD_H

#ifndef NX_LOAD
#define NX_LOAD(type, src, field) ((src)->field)
#define NX_LOAD_STATUS(src, field) ((src)->field)
#define NX_LOAD_MESSAGE(src, index) ((src)->message[index])
#endif

#endif /* NX_LOAD_H */
