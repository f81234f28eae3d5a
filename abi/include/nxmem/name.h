/*
 * name.h: is this a name that may be kept, compared and shown?
 *
 * Attackers: a plugin whose name is empty, endless, not UTF-8, or carries control characters.
 * Promise: an accepted name is 1 to 255 bytes of valid UTF-8 without control characters, followed by a NUL.
 */
#ifndef NXMEM_NAME_H
#define NXMEM_NAME_H

#include "nxmem/identity.h"
#include "nxmem/status.h"
#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_NAME_MAX = 255, NXMEM_NAME_BUF = 256 };

#ifdef __FRAMAC__
/* clang-format off */
/* The code point of three bytes. */
#define NX_POINT_3(b) (((b)[0] - 0xE0) * 4096 + ((b)[1] - 0x80) * 64 + ((b)[2] - 0x80))
#define NX_NO_NUL_AMONG(b, n) (\forall integer k; 0 <= k < (n) ==> (b)[k] != 0)
/*
 * Two names of equal bytes, with the NUL at n. What is said to exist is said as a negation: of a chain of && the run-time
 * checker would keep the last part alone.
 */
#define NX_SAME_BEFORE(a, b, n) (\forall integer k; 0 <= k < (n) ==> (a)[k] == (b)[k] && (a)[k] != 0)
#define NX_SAME_TO(a, b, n) (!((a)[n] != 0 || (b)[n] != 0 || !NX_SAME_BEFORE(a, b, n)))
#define NX_FIRST_DIFFERENCE(a, b, n) (!((a)[n] == (b)[n] || !NX_SAME_BEFORE(a, b, n)))
#define NX_ENDED_NAME(b) (\exists integer n; 0 <= n <= 255 && !((b)[n] != 0 || !\valid_read((b) + (0 .. n))))
/* clang-format on */
#endif
/*
 * Judge the host's own copy of a name's first bytes.
 *
 * bytes       `available` readable bytes; available at most NXMEM_NAME_BUF.
 * length_out  Bytes before the NUL; written only on NXMEM_REASON_NONE.
 *
 * EMPTY_NAME; UNTERMINATED_NAME (no NUL among the bytes); BAD_UTF8 and CONTROL_CHARACTER at the first offending offset.
 */
/*@ requires available: available <= NXMEM_NAME_BUF;
    requires bytes_readable: \valid_read(bytes + (0 .. available - 1));
    requires out_writable: \valid(length_out);
    requires apart: \separated(length_out, bytes + (0 .. available - 1));
    assigns *length_out;
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *length_out == \old(*length_out);
    behavior unterminated:
      assumes no_nul: NX_NO_NUL_AMONG(bytes, available);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_UNTERMINATED_NAME, 0, available, 256);
    behavior empty:
      assumes nul_first: available > 0 && bytes[0] == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_EMPTY_NAME, 0, 0, 1);
    behavior judged:
      assumes some_nul: !NX_NO_NUL_AMONG(bytes, available);
      assumes not_first: bytes[0] != 0;
      ensures judgement: NX_ACCEPTED(\result) || \result.reason == NXMEM_REASON_BAD_UTF8 ||
                         \result.reason == NXMEM_REASON_CONTROL_CHARACTER;
      ensures length: \result.reason == NXMEM_REASON_NONE ==>
                      1 <= *length_out <= 255 && *length_out < available && bytes[*length_out] == 0;
      ensures first_nul: \result.reason == NXMEM_REASON_NONE ==> NX_NO_NUL_AMONG(bytes, *length_out);
      ensures text: \result.reason == NXMEM_REASON_NONE ==> NX_TEXT(bytes, *length_out);
      ensures offence: \result.reason != NXMEM_REASON_NONE ==> \result.field < available && \result.needed == 0;
      ensures before: \result.reason != NXMEM_REASON_NONE ==> NX_TEXT(bytes, \result.field);
      ensures not_ended: \result.reason != NXMEM_REASON_NONE ==> NX_NO_NUL_AMONG(bytes, \result.field + 1);
      ensures bad_utf8: \result.reason == NXMEM_REASON_BAD_UTF8 ==>
                        !NX_UTF8(bytes + \result.field, available - \result.field) &&
                        \result.found == bytes[\result.field];
      ensures control: \result.reason == NXMEM_REASON_CONTROL_CHARACTER ==>
                       (NX_CONTROL_BYTE(bytes[\result.field]) && \result.found == bytes[\result.field]) ||
                       (NX_C1(bytes + \result.field, available - \result.field) &&
                        \result.found == bytes[\result.field + 1]) ||
                       (NX_TURN_2(bytes + \result.field, available - \result.field) && \result.found == 0x61C) ||
                       (NX_TURN_3(bytes + \result.field, available - \result.field) &&
                        \result.found == NX_POINT_3(bytes + \result.field));
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_name(const uint8_t *bytes, uint32_t available, uint32_t *length_out);

/*
 * Judge a name as it was fetched: `address` is where the plugin says it stands, `available` how many bytes could be
 * read there, at most NXMEM_NAME_BUF. NULL_POINTER; UNREADABLE where the bytes end before a NUL and before the
 * longest name does; else as nxmem_check_name. *length_out is written only on NXMEM_REASON_NONE.
 */
/*@ requires available: available <= NXMEM_NAME_BUF;
    requires bytes_readable: \valid_read(bytes + (0 .. available - 1));
    requires out_writable: \valid(length_out);
    requires apart: \separated(length_out, bytes + (0 .. available - 1));
    assigns *length_out;
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *length_out == \old(*length_out);
    behavior null_name:
      assumes null: address == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NULL_POINTER, 0, available, 256);
    behavior unreadable:
      assumes somewhere: address != 0;
      assumes ends_early: available < 256 && NX_NO_NUL_AMONG(bytes, available);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_UNREADABLE, 0, available, 256);
    behavior unterminated:
      assumes somewhere: address != 0;
      assumes too_long: available == 256 && NX_NO_NUL_AMONG(bytes, available);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_UNTERMINATED_NAME, 0, 256, 256);
    behavior ended:
      assumes somewhere: address != 0;
      assumes some_nul: !NX_NO_NUL_AMONG(bytes, available);
      ensures judgement: NX_ACCEPTED(\result) || \result.reason == NXMEM_REASON_EMPTY_NAME ||
                         \result.reason == NXMEM_REASON_BAD_UTF8 || \result.reason == NXMEM_REASON_CONTROL_CHARACTER;
      ensures empty: \result.reason == NXMEM_REASON_EMPTY_NAME <==> bytes[0] == 0;
      ensures length: \result.reason == NXMEM_REASON_NONE ==>
                      1 <= *length_out <= 255 && *length_out < available && bytes[*length_out] == 0;
      ensures first_nul: \result.reason == NXMEM_REASON_NONE ==> NX_NO_NUL_AMONG(bytes, *length_out);
      ensures text: \result.reason == NXMEM_REASON_NONE ==> NX_TEXT(bytes, *length_out);
      ensures offence: \result.reason == NXMEM_REASON_BAD_UTF8 || \result.reason == NXMEM_REASON_CONTROL_CHARACTER ==>
                       \result.field < available && NX_TEXT(bytes, \result.field) &&
                       NX_NO_NUL_AMONG(bytes, \result.field + 1) && \result.needed == 0;
      ensures empty_numbers: \result.reason == NXMEM_REASON_EMPTY_NAME ==>
                             NX_VERDICT_IS(\result, NXMEM_REASON_EMPTY_NAME, 0, 0, 1);
      ensures bad_utf8: \result.reason == NXMEM_REASON_BAD_UTF8 ==>
                        !NX_UTF8(bytes + \result.field, available - \result.field) &&
                        \result.found == bytes[\result.field];
      ensures control: \result.reason == NXMEM_REASON_CONTROL_CHARACTER ==>
                       (NX_CONTROL_BYTE(bytes[\result.field]) && \result.found == bytes[\result.field]) ||
                       (NX_C1(bytes + \result.field, available - \result.field) &&
                        \result.found == bytes[\result.field + 1]) ||
                       (NX_TURN_2(bytes + \result.field, available - \result.field) && \result.found == 0x61C) ||
                       (NX_TURN_3(bytes + \result.field, available - \result.field) &&
                        \result.found == NX_POINT_3(bytes + \result.field));
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_fetched_name(uint64_t address, const uint8_t *bytes, uint32_t available,
                                       uint32_t *length_out);

/* 1 where two accepted names (each with its NUL inside NXMEM_NAME_BUF bytes) are the same bytes. */
/*@ requires a_ended: NX_ENDED_NAME(a);
    requires b_ended: NX_ENDED_NAME(b);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures same: \result == 1 ==> (\exists integer n; 0 <= n <= 255 && NX_SAME_TO(a, b, n));
    ensures different: \result == 0 ==> (\exists integer n; 0 <= n <= 255 && NX_FIRST_DIFFERENCE(a, b, n)); */
int nxmem_same_name(const uint8_t *a, const uint8_t *b);

/* 1 where two mechanisms cannot be told apart: the same name on the same device. The names as for nxmem_same_name. */
/*@ requires a_ended: NX_ENDED_NAME(a);
    requires b_ended: NX_ENDED_NAME(b);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures same: \result == 1 ==> NX_SAME_DEVICE(a_device, b_device) &&
                  (\exists integer n; 0 <= n <= 255 && NX_SAME_TO(a, b, n));
    ensures different: \result == 0 ==> !NX_SAME_DEVICE(a_device, b_device) ||
                       (\exists integer n; 0 <= n <= 255 && NX_FIRST_DIFFERENCE(a, b, n)); */
int nxmem_same_mechanism(NxmemDeviceId a_device, const uint8_t *a, NxmemDeviceId b_device, const uint8_t *b);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_NAME_H */
