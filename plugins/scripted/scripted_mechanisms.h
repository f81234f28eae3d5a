/*
 * scripted_mechanisms.h: the groups of rows that the scripted modules publish.
 *
 * Attackers: none.
 * Promise: a group is a table of named rows; which module has which groups stands in CMakeLists.txt.
 */
#ifndef NXMEM_SCRIPTED_MECHANISMS_H
#define NXMEM_SCRIPTED_MECHANISMS_H

#include "scripted_base.h"

typedef struct nx_row_group {
  const nx_mechanism *rows;
  uint32_t count;
} nx_row_group;

#define NX_ROWS(table) \
  { (table), sizeof(table) / sizeof((table)[0]) }

extern const nx_row_group nx_honest_rows; /* scripted_honest.c: eager and lazy */
extern const nx_row_group nx_table_rows;  /* scripted_tables.c: tables and opens that are not what they claim */
extern const nx_row_group nx_answer_rows; /* scripted_answers.c: honest tables whose slots answer falsely */

#endif /* NXMEM_SCRIPTED_MECHANISMS_H */
