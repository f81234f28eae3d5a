/*
 * shows.h: what each mechanism of libnxmem_scripted.so commits; shows.c and shows_calls.c.
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: one function, one mechanism.
 */
#ifndef NXMEM_TESTS_SHOWS_H
#define NXMEM_TESTS_SHOWS_H

#include "mechanisms.h"

void show_honest(const scene *s);
void show_lazy(const scene *s);
void show_legacy(const scene *s);
void show_poison(const scene *s);
void show_missing_slot(const scene *s);
void show_no_release_slot(const scene *s);
void show_no_mechanism(const scene *s);
void show_other_device(const scene *s);
void show_undeclared(const scene *s);
void show_null(const scene *s);
void show_wild(const scene *s);
void show_misaligned(const scene *s);
void show_stateless(const scene *s);
void show_refused_open(const scene *s);
void show_refused_allocate(const scene *s);
void show_null_address(const scene *s);
void show_misaligned_address(const scene *s);
void show_wrapping_address(const scene *s);
void show_huge(const scene *s);
void show_same_address(const scene *s);
void show_refused_deallocate(const scene *s);
void show_over_refund(const scene *s);
void show_quarantine(const scene *s);
void show_future(const scene *s);
void show_no_outcome(const scene *s);
void show_status_only(const scene *s);
void show_failed_first(const scene *s);
void show_ahead_of_host(const scene *s);
void show_undeclared_slots(const scene *s);
void show_calls_host(const scene *s);
void show_callback_probe(const scene *s);
void show_after_drop(const scene *s);
void show_refused_enqueue(const scene *s);
void show_completion_inside_enqueue(const scene *s);
void show_drip(const scene *s);
void show_completion_inside_release(const scene *s);

#endif /* NXMEM_TESTS_SHOWS_H */
