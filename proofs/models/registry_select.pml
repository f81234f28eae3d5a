/*
 * registry_select.pml: which mechanism is current on a device, while mechanisms are selected, registered, retired, lost, terminated, bound and removed.
 *
 * One device: its place names a mechanism or none, and is changed by single exchanges and compare-and-swaps. A mechanism's word has its lifecycle; identities are never used again.
 *
 * host/src/registry_select.c     nxmem_mechanism_select      S1 look, S2 publish (one exchange), S3 re-check
 *                                withdraw                    W1 look at the predecessor, W2 withdraw (one compare-and-swap from the candidate), W3 re-check the
 *                                                            predecessor, W4 clear it (one compare-and-swap from the predecessor)
 *                                nx_select_if_empty          R2 fill an empty place (one compare-and-swap from none), R3 re-check, R4 take it back
 * host/src/registry_mechanism.c  show                        R1 register: ACTIVE, for all to find
 *                                nxmem_mechanism_remove      M1 claim
 *                                remove_claimed              M2 count what pins it
 *                                close_part                  M3 the allocator's release
 *                                take_out                    M4 give up the pin of its context
 * host/src/registry_end.c        nxmem_mechanism_retire, lose  T1 end (the lifecycle turns terminal), T2 drop (one compare-and-swap from what ended)
 *                                nxmem_mechanism_confirm_terminated  C1 from lost to terminated
 * host/src/registry_bind.c       nxmem_bind_mechanism        B1 pin, B2 look
 * host/src/registry.c            nx_member_remove            X1 remove a context that nothing pins
 *
 * Property: when all is done, the place names nothing or what is ACTIVE; a withdrawn candidate's healthy predecessor stands there again; a newer selection is left alone;
 * what ends never changes a place that names another; no allocator is released that a binding pins, twice, or after its context,
 * or while its device is lost and nobody has confirmed that it is gone.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   RESTORE_UNCHECKED: init: place == NONE || life[place] == ACTIVE
 *   RESTORE_ONCE_CHECKED: init: place == NONE || life[place] == ACTIVE
 *   DROP_BEFORE_END: init: place == NONE || life[place] == ACTIVE
 *   PINS_FIRST: remover: context && !bound[m] && life[m] != LOST
 *   TOUCH_NEWER: init: scene != 2 || last != 2 || place == 2
 *   DROP_ANY: drop: was == NONE || was == m
 *   WITHOUT_RECHECK: init: place == NONE || life[place] == ACTIVE
 *   FILL_WITHOUT_RECHECK: init: place == NONE || life[place] == ACTIVE
 *   LOOK_BEFORE_PIN: binder: life[m] != REMOVED
 *   CLEAR_ALWAYS: init: scene != 1 || !withdrew || place == 0
 *   RESTORE_TERMINATED: init: place == NONE || life[place] == ACTIVE
 *   REMOVE_UNCONFIRMED: remover: context && !bound[m] && life[m] != LOST
 */
#define MECHANISMS 4
#define NONE 255

mtype = { UNBORN, ACTIVE, RETIRED, LOST, TERMINATED, REMOVED };
mtype life[MECHANISMS] = ACTIVE;
byte place = 0;
byte last = 0;               /* who wrote the place last with a selection of its own */
byte pins[MECHANISMS] = 0;   /* bindings */
bool bound[MECHANISMS] = false;
bool claimed[MECHANISMS] = false; /* being removed; its lifecycle stays */
byte context_pins = 1;       /* of the mechanism that is removed */
bool context = true;
byte releases = 0;
bool withdrew = false;

proctype selector(byte m) {
  byte before;
  bool healthy;
  bool mine = false;
  if
  :: life[m] == ACTIVE -> skip                      /* S1 */
  :: else -> goto done
  fi;
  atomic { before = place; place = m; last = m };   /* S2 */
#ifndef WITHOUT_RECHECK
  if
  :: life[m] == ACTIVE -> goto done                 /* S3 */
  :: else -> skip
  fi;
#ifdef RESTORE_UNCHECKED
  healthy = (before != NONE);
#else
#ifdef CLEAR_ALWAYS
  healthy = false;
#else
  if
#ifdef RESTORE_TERMINATED
  :: before != NONE -> healthy = (life[before] != RETIRED && life[before] != LOST)
#else
  :: before != NONE -> healthy = (life[before] == ACTIVE) /* W1 */
#endif
  :: else -> healthy = false
  fi;
#endif
#endif
  atomic {                                          /* W2 */
    if
#ifdef TOUCH_NEWER
    :: true ->
#else
    :: place == m ->
#endif
       mine = true;
       withdrew = true;
       if
       :: healthy -> place = before
       :: else -> place = NONE
       fi
    :: else -> skip                                 /* a newer one stands there, or none */
    fi
  };
#ifndef RESTORE_UNCHECKED
#ifndef RESTORE_ONCE_CHECKED
  if
  :: mine && healthy ->
     if
#ifdef RESTORE_TERMINATED
     :: life[before] != RETIRED && life[before] != LOST -> skip
#else
     :: life[before] == ACTIVE -> skip              /* W3 */
#endif
     :: else ->
        atomic {                                    /* W4: no further fallback */
          if
          :: place == before -> place = NONE
          :: else -> skip
          fi
        }
     fi
  :: else -> skip
  fi;
#endif
#endif
#endif
done:
  skip
}

proctype registrar(byte m) {
  bool filled = false;
  life[m] = ACTIVE;                                 /* R1 */
  atomic {                                          /* R2 */
    if
    :: place == NONE -> place = m; last = m; filled = true
    :: else -> skip
    fi
  };
#ifndef FILL_WITHOUT_RECHECK
  if
  :: filled && life[m] != ACTIVE ->                 /* R3 */
     atomic {                                       /* R4 */
       if
       :: place == m -> place = NONE
       :: else -> skip
       fi
     }
  :: else -> skip
  fi
#endif
}

inline drop(m) {
  atomic {                                          /* T2 */
#ifdef DROP_ANY
    place = NONE;
    assert(was == NONE || was == m)
#else
    if
    :: place == m -> place = NONE
    :: else -> skip
    fi
#endif
  }
}

/* Retirement and loss differ in what they refuse afterwards, not here. */
proctype ender(byte m; mtype to) {
  byte was = NONE;
#ifdef DROP_BEFORE_END
  drop(m);
  atomic { life[m] == ACTIVE -> life[m] = to }
#else
  atomic { life[m] == ACTIVE -> life[m] = to };     /* T1 */
#ifdef DROP_ANY
  was = place;
#endif
  drop(m)
#endif
}

proctype confirmer(byte m) {
  atomic { life[m] == LOST -> life[m] = TERMINATED } /* C1 */
}

/* Binds to whatever stands in the place, uses it, and ends. */
proctype binder() {
  byte m;
  m = place;
  if
  :: m == NONE -> goto done
  :: else -> skip
  fi;
#ifdef LOOK_BEFORE_PIN
  if
  :: life[m] == ACTIVE -> pins[m]++
  :: else -> goto done
  fi;
#else
  pins[m]++;                                        /* B1 */
  if
  :: life[m] == ACTIVE -> skip                      /* B2 */
  :: else -> pins[m]--; goto done
  fi;
#endif
  bound[m] = true;
  assert(life[m] != REMOVED);
  bound[m] = false;
  pins[m]--;
done:
  skip
}

#ifdef REMOVE_UNCONFIRMED
#define may_go(m) (life[m] == RETIRED || life[m] == TERMINATED || life[m] == LOST)
#else
#define may_go(m) (life[m] == RETIRED || life[m] == TERMINATED)
#endif

proctype remover(byte m) {
  byte tries = 0;
  do
  :: tries == 2 -> break
  :: else ->
     tries++;
     atomic {                                       /* M1 */
       if
       :: !claimed[m] && may_go(m) -> claimed[m] = true
       :: else -> goto again
       fi
     };
     if
     :: pins[m] != 0 -> claimed[m] = false          /* M2 */
     :: else ->
#ifdef PINS_FIRST
        context_pins--;
#endif
        assert(context && !bound[m] && life[m] != LOST);
        releases++;                                 /* M3 */
        assert(releases == 1);
        life[m] = REMOVED;
#ifndef PINS_FIRST
        context_pins--;                             /* M4 */
#endif
        break
     fi;
again:
     skip
  od
}

proctype context_remover() {
end:
  atomic { context_pins == 0 -> context = false }   /* X1 */
}

init {
  byte scene = 0;
  byte removed = 1;
  life[3] = UNBORN;
  if
  :: scene = 1 /* one candidate that ends; a healthy predecessor */
  :: scene = 2 /* a candidate that ends, and a newer one that does not */
  :: scene = 3 /* two candidates and the predecessor end; another is registered */
  :: scene = 4 /* one ends and is removed while it is selected and bound to */
  :: scene = 5 /* the predecessor is lost, confirmed and removed, and the candidate ends; it is bound to */
  :: scene = 6 /* as 4, with one removal, beside a second candidate */
  fi;
  atomic {
    if
    :: scene == 5 -> removed = 0
    :: else -> skip
    fi;
    if
    :: scene == 1 -> run selector(1); run ender(1, RETIRED)
    :: scene == 2 -> run selector(1); run ender(1, LOST); run selector(2)
    :: scene == 3 -> run selector(1); run selector(2); run ender(0, RETIRED); run ender(1, RETIRED); run ender(2, LOST); run registrar(3); run ender(3, RETIRED)
    :: scene == 4 -> run context_remover(); run selector(1); run ender(1, RETIRED); run binder(); run remover(1); run remover(1)
    :: scene == 5 -> run context_remover(); run selector(1); run ender(0, LOST); run confirmer(0); run remover(0); run ender(1, RETIRED); run binder()
    :: scene == 6 -> run context_remover(); run selector(1); run selector(2); run ender(1, RETIRED); run binder(); run remover(1)
    fi
  };
  (_nr_pr == 1 || scene >= 4 && _nr_pr == 2 && context_pins != 0);
  assert(place == NONE || life[place] == ACTIVE);
  assert(scene != 1 || !withdrew || place == 0);
  assert(scene != 2 || last != 2 || place == 2);
  assert(scene != 6 || last != 2 || place == 2);
  assert(scene < 4 || releases == 0 || life[removed] == REMOVED)
}
