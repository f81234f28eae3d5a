/*
 * unload_gate.pml: the unload gate against calls, work that a plugin does on its own threads, and a second unloader.
 *
 * host/src/objects.c  nx_plugin_enter, nx_plugin_leave   E1 count in, E2 look at the state (E3: the caller runs plugin code), E4 count out
 * host/src/module.c   nx_module_try_release              U1 shut the gate, U4 unmap or open it again
 * host/src/gate.c     nx_gate_ask                        U2 take the host's tallies, U3 ask the plugin
 *
 * Property: no host call and no thread of the plugin runs plugin code once the module is unmapped; it is unmapped at most once.
 * Assumed: the plugin's report counts its own threads truly (SOUNDNESS.md: a host cannot check it).
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   LOOK_BEFORE_COUNT: caller: mapped
 *   COUNT_BEFORE_SHUT: caller: mapped
 *   ASK_BEFORE_COUNT: plugin_thread: mapped
 *   ALLOCATORS_FIRST: allocator_user: mapped
 *   NO_HOST_HALF: caller: mapped
 *   NO_PLUGIN_HALF: plugin_thread: mapped
 *   NO_CLAIM: unloader: mapped
 */
mtype = { READY, UNLOADING, GONE };
mtype state = READY;
byte inside = 0;        /* host calls counted in */
byte allocators = 0;    /* open allocators: calls through them are not counted in the module */
bool opened = false;
byte plugin_work = 0;   /* what the plugin's report counts: its own threads at work */
bool start_work = false;
bool mapped = true;

proctype caller(bool starts_thread; bool opens_allocator) {
  mtype seen;
#ifdef LOOK_BEFORE_COUNT
  seen = state;
  inside++;
#else
  inside++;             /* E1 */
  seen = state;         /* E2 */
#endif
  if
  :: seen == READY ->
     assert(mapped);    /* E3 */
     if
     :: starts_thread -> plugin_work++; start_work = true
     :: else -> skip
     fi;
     assert(mapped);    /* still in plugin code until it returns */
     if
     :: opens_allocator -> allocators++; opened = true
     :: else -> skip
     fi
  :: else -> skip       /* refused */
  fi;
  inside--              /* E4 */
}

/* Calls through an open allocator, then its close: the plugin's release runs before the count falls. */
proctype allocator_user() {
end:
  (opened);
  assert(mapped);
  assert(mapped);
  allocators--
}

/* A thread of the plugin: begun by a call, counted in the report before that call returns; it may call back into the host, whose tables are never unmapped. */
proctype plugin_thread() {
end:
  (start_work);          /* waiting for ever is fine: no call started it */
  assert(mapped);
  assert(mapped);
  plugin_work--
}

proctype unloader() {
  byte reported = 0;
  byte counted = 0;
#ifdef COUNT_BEFORE_SHUT
  counted = inside;
  counted = counted + allocators;
#endif
#ifdef NO_CLAIM
  if
  :: state == READY -> state = UNLOADING
  :: else -> goto refused
  fi;
#else
  atomic {              /* U1: one compare-and-swap */
    if
    :: state == READY -> state = UNLOADING
    :: else -> goto refused
    fi
  };
#endif
#ifdef ASK_BEFORE_COUNT
  reported = plugin_work;
  counted = inside;
  counted = counted + allocators;
#else
#ifdef ALLOCATORS_FIRST
  counted = allocators;
  counted = counted + inside;
#else
#ifndef COUNT_BEFORE_SHUT
  counted = inside;     /* U2: calls inside, then what they may have left */
  counted = counted + allocators;
#endif
#endif
  reported = plugin_work; /* U3 */
#endif
#ifdef NO_HOST_HALF
  counted = 0;
#endif
#ifdef NO_PLUGIN_HALF
  reported = 0;
#endif
  if
  :: reported == 0 && counted == 0 ->
     assert(mapped);    /* unmapped at most once */
     mapped = false;    /* U4 */
     state = GONE
  :: else -> state = READY
  fi;
refused:
  skip
}

init {
  atomic {
    run caller(true, false);
    run caller(false, true);
    run allocator_user();
    run plugin_thread();
    run unloader();
    run unloader()
  }
}
