/* Something that one thread does once while others wait for it, without a lock held while it is done. Private to the adapter. */
#ifndef NX_TORCH_LATCH_H
#define NX_TORCH_LATCH_H

#include <pthread.h>
#include <stdatomic.h>

typedef struct nx_torch_latch {
  _Atomic int state; /* 0 to begin with */
  pthread_t owner;   /* while it is being done */
} nx_torch_latch;

typedef enum nx_torch_turn {
  NX_TORCH_DONE,    /* by whomever: what was made may be read */
  NX_TORCH_MINE,    /* to do now; nx_torch_latch_leave() is owed */
  NX_TORCH_TAKEN_UP /* this very thread is at it, further up its stack; or another, and the caller does not wait */
} nx_torch_turn;

nx_torch_turn nx_torch_latch_enter(nx_torch_latch *latch, int waits);

/* done 0: it failed; the next one to enter tries again. */
void nx_torch_latch_leave(nx_torch_latch *latch, int done);

int nx_torch_latch_is_done(const nx_torch_latch *latch);

#endif /* NX_TORCH_LATCH_H */
