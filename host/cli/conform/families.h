/*
 * families.h: the families of rules, one file each.
 * No input. Promise: every family is in rules.c.
 */
#ifndef NXMEM_CONFORM_FAMILIES_H
#define NXMEM_CONFORM_FAMILIES_H

#include "conform/rule.h"

extern const nx_family nx_module_rules;
extern const nx_family nx_module_life_rules;
extern const nx_family nx_negotiation_rules;
extern const nx_family nx_negotiation_misuse_rules;
extern const nx_family nx_unload_rules;
extern const nx_family nx_enumeration_rules;

extern const nx_family nx_table_rules;
extern const nx_family nx_open_rules;
extern const nx_family nx_allocate_rules;
extern const nx_family nx_allocate_misuse_rules;
extern const nx_family nx_deallocate_rules;
extern const nx_family nx_structured_rules;
extern const nx_family nx_release_misuse_rules;
extern const nx_family nx_deferred_rules;
extern const nx_family nx_backing_rules;
extern const nx_family nx_backing_misuse_rules;
extern const nx_family nx_sharing_rules;
extern const nx_family nx_sharing_misuse_rules;
extern const nx_family nx_status_rules;
extern const nx_family nx_stress_rules;
extern const nx_family nx_callback_rules;

#endif /* NXMEM_CONFORM_FAMILIES_H */
