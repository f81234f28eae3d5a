/*
 * release_race.pml: two threads release through copies of one handle while a third allocates and may get the same slot again.
 *
 * host/src/record.c    nx_record_claim_at       R1 look (nxmem_is_claimable), R2 claim (one compare-and-swap on the whole word)
 * host/src/release.c   release_claimed          R3 the plugin's release slot, R4 free with the next generation, or live again
 * host/src/allocate.c  allocate_inside          A1 take a free slot
 *                      allocate_into            A2 the plugin's allocate slot, A3 live
 *
 * Property: the plugin is asked to release each allocation at most once; an old handle never releases the newer allocation in the same slot.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   STORE_INSTEAD_OF_SWAP: releaser: which == handle_generation
 *   SAME_GENERATION: releaser: which == handle_generation
 *   FREE_BEFORE_CALL: releaser: owner == which
 */
mtype = { FREE, ALLOCATING, LIVE, RELEASING };
mtype state = LIVE;
byte generation = 1;
byte owner = 1;              /* which allocation the plugin has at the slot's address: 1 the first, 2 the second, 0 none */
byte releases[3] = 0;        /* how often the plugin was asked to release each */
bool taken = false;          /* the slot stands on the free list and may be taken once */
bool on_free_list = false;

inline enter_plugin_release(which) {
  assert(which != 0);        /* never asked to release what it does not have */
  releases[which]++;
  assert(releases[which] == 1);
  owner = 0
}

proctype releaser(byte handle_generation) {
  bool mine = false;
  byte which;
  bool refuses;
  /* R1: who looks before the swap and finds another word is refused then and there; the swap decides all the same */
#ifdef STORE_INSTEAD_OF_SWAP
  if
  :: state == LIVE && generation == handle_generation -> state = RELEASING; mine = true
  :: else -> skip
  fi;
#else
  atomic {                   /* R2 */
    if
    :: state == LIVE && generation == handle_generation -> state = RELEASING; mine = true
    :: else -> skip          /* stale or busy: the plugin is not asked */
    fi
  };
#endif
  if
  :: mine ->
#ifdef FREE_BEFORE_CALL
     which = owner;
     atomic { generation++; state = FREE; on_free_list = true };
     assert(owner == which); /* the slot was handed out while its old allocation is still being released */
     enter_plugin_release(which)
#else
     which = owner;          /* R3 */
     assert(which == handle_generation);
     enter_plugin_release(which);
#ifdef SAME_GENERATION
     atomic { state = FREE; on_free_list = true }
#else
     atomic { generation++; state = FREE; on_free_list = true } /* R4: one store of the whole word */
#endif
#endif
  :: else -> skip
  fi
}

proctype allocator() {
  atomic {                   /* A1 */
    if
    :: on_free_list -> on_free_list = false; taken = true; state = ALLOCATING
    :: else -> skip
    fi
  };
  if
  :: taken ->
     owner = 2;              /* A2 */
     state = LIVE            /* A3 */
  :: else -> skip
  fi
}

init {
  atomic {
    run releaser(1);
    run releaser(1);
    run allocator()
  }
}
