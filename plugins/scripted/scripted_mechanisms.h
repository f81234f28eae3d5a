/*
 * scripted_mechanisms.h: the rows that libnxmem_scripted.so publishes.
 *
 * Attackers: none.
 * Promise: at most as many rows as a host accepts factories of one module.
 */
#ifndef NXMEM_SCRIPTED_MECHANISMS_H
#define NXMEM_SCRIPTED_MECHANISMS_H

#include "scripted_base.h"

/* scripted_tables.c: tables and opens that are not what they claim. */
extern const nx_mechanism nx_table_rows[];
extern const uint32_t nx_table_row_count;

/* scripted_answers.c: honest tables whose slots answer falsely. */
extern const nx_mechanism nx_answer_rows[];
extern const uint32_t nx_answer_row_count;

#endif /* NXMEM_SCRIPTED_MECHANISMS_H */
