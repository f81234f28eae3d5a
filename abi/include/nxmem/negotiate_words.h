/*
 * negotiate_words.h: words of the contracts in negotiate.h. Only the proofs and the run-time checker include it.
 *
 * A range or version is named by its lvalue, so that one word serves a record and its part.
 */
#ifndef NXMEM_NEGOTIATE_WORDS_H
#define NXMEM_NEGOTIATE_WORDS_H

#include "nxmem/capability.h"

#define NX_MOST(a, b) ((a) > (b) ? (a) : (b))
#define NX_RANGE_VALID(r) ((r).major_min <= (r).major_max && (r).minor_min <= (r).minor_max)
#define NX_RANGE_COPIED(o, r) \
  ((o).major_min == (r).major_min && (o).major_max == (r).major_max && (o).minor_min == (r).minor_min && \
   (o).minor_max == (r).minor_max)
#define NX_INVERTED(v, r, at) \
  (((r).major_min > (r).major_max ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_INVERTED_RANGE, at, (r).major_min, (r).major_max)) && \
   ((r).major_min <= (r).major_max ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_INVERTED_RANGE, (at) + 8, (r).minor_min, (r).minor_max)))

/* What two ranges have in common; h the host's, o our own. */
#define NX_BEST_MAJOR(h, o) NX_LEAST((h).major_max, (o).major_max)
#define NX_BEST_MINOR(h, o) NX_LEAST((h).minor_max, (o).minor_max)
#define NX_LEAST_MAJOR(h, o) NX_MOST((h).major_min, (o).major_min)
#define NX_LEAST_MINOR(h, o) NX_MOST((h).minor_min, (o).minor_min)
#define NX_BOTH_VALID(h, o) (NX_RANGE_VALID(h) && NX_RANGE_VALID(o))
#define NX_COMMON_MAJOR(h, o) (NX_BOTH_VALID(h, o) && NX_BEST_MAJOR(h, o) >= NX_LEAST_MAJOR(h, o))
#define NX_COMMON(h, o) (NX_COMMON_MAJOR(h, o) && NX_BEST_MINOR(h, o) >= NX_LEAST_MINOR(h, o))
#define NX_COMMON_REFUSED(v, h, o) \
  ((!NX_RANGE_VALID(h) ==> NX_INVERTED(v, h, 8)) && \
   (NX_RANGE_VALID(h) && !NX_RANGE_VALID(o) ==> NX_INVERTED(v, o, 0)) && \
   (NX_BOTH_VALID(h, o) && !NX_COMMON_MAJOR(h, o) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_NO_COMMON_MAJOR, 8, NX_BEST_MAJOR(h, o), NX_LEAST_MAJOR(h, o))) && \
   (NX_COMMON_MAJOR(h, o) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_NO_COMMON_MINOR, 16, NX_BEST_MINOR(h, o), NX_LEAST_MINOR(h, o))))
#define NX_SHARED_CAPS(request, own) \
  NX_EFFECTIVE((own)->capability_flags, (request)->host_capability_flags, \
               NX_BEST_MINOR((request)->host_range, (own)->range))
#define NX_AGREED(r, major, minor, flags) \
  ((r)->agreed_major == (major) && (r)->agreed_minor == (minor) && (r)->capability_flags == (flags))

/* The answer r against a range, and its flags against what was offered and what its minor defines. */
#define NX_MAJOR_INSIDE(r, range) ((range).major_min <= (r)->agreed_major <= (range).major_max)
#define NX_MINOR_INSIDE(r, range) ((range).minor_min <= (r)->agreed_minor <= (range).minor_max)
#define NX_VERSION_INSIDE(r, range) (NX_MAJOR_INSIDE(r, range) && NX_MINOR_INSIDE(r, range))
#define NX_OUTSIDE(v, why, at, number, low, high) \
  (((number) < (low) ==> NX_VERDICT_IS(v, why, at, number, low)) && \
   ((number) >= (low) ==> NX_VERDICT_IS(v, why, at, number, high)))
#define NX_VERSION_REFUSED(v, r, range) \
  ((!NX_MAJOR_INSIDE(r, range) ==> NX_OUTSIDE(v, NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, (r)->agreed_major, \
                                              (range).major_min, (range).major_max)) && \
   (NX_MAJOR_INSIDE(r, range) ==> NX_OUTSIDE(v, NXMEM_REASON_MINOR_OUT_OF_RANGE, 8, (r)->agreed_minor, \
                                             (range).minor_min, (range).minor_max)))
#define NX_ANSWERED(code, r) ((code) == 0 && (r)->struct_size >= 40)
#define NX_ANSWERED_VERSION(code, r, ours) \
  (NX_ANSWERED(code, r) && NX_RANGE_VALID((r)->plugin_range) && NX_VERSION_INSIDE(r, ours) && \
   NX_VERSION_INSIDE(r, (r)->plugin_range))
#define NX_WITHIN(flags, bits) (((flags) & (bits)) == (flags))
#define NX_FLAGS_OFFERED(flags, offered) (NX_WITHIN(flags, 31) && NX_WITHIN(flags, offered))
#define NX_FLAGS_FIT(flags, offered, minor) \
  (NX_FLAGS_OFFERED(flags, offered) && NX_HAS(flags, 1) && NX_WITHIN(flags, NX_CAPS_AT(minor)))
#define NX_FLAGS_REFUSED(v, flags, offered, minor) \
  ((!NX_WITHIN(flags, 31) ==> NX_VERDICT_IS(v, NXMEM_REASON_UNKNOWN_CAPABILITY, 32, flags, 31)) && \
   (NX_WITHIN(flags, 31) && !NX_WITHIN(flags, offered) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_CAPS_BEYOND_OFFER, 32, flags, offered)) && \
   (NX_FLAGS_OFFERED(flags, offered) && !NX_HAS(flags, 1) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_NO_ALLOCATOR, 32, flags, 1)) && \
   (NX_FLAGS_OFFERED(flags, offered) && NX_HAS(flags, 1) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_CAPS_BEYOND_LEVEL, 32, flags, NX_CAPS_AT(minor))))

#define NX_REQUEST_READABLE(p) \
  (\valid_read(&(p)->struct_size) && \
   ((p)->struct_size >= 32 ==> \
    \valid_read(&(p)->host_range.major_min) && \valid_read(&(p)->host_range.major_max) && \
    \valid_read(&(p)->host_range.minor_min) && \valid_read(&(p)->host_range.minor_max) && \
    \valid_read(&(p)->host_capability_flags)))

#endif /* NXMEM_NEGOTIATE_WORDS_H */
