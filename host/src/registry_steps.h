/*
 * Named steps of the registry's protocols: nothing in the library. A test that compiles the registry's sources with NX_STEPS gets called at each, and so decides what
 * other threads do in between. Private to the host.
 */
#ifndef NX_REGISTRY_STEPS_H
#define NX_REGISTRY_STEPS_H

#ifdef NX_STEPS
void nx_step(const char *name);
#define NX_STEP(name) nx_step(name)
#else
#define NX_STEP(name) ((void)0)
#endif

#endif /* NX_REGISTRY_STEPS_H */
