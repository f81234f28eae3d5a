/*
 * families.h: the families of rules, one file each.
 * No input. Promise: every family is in rules.c.
 */
#ifndef NXMEM_CONFORM_FAMILIES_H
#define NXMEM_CONFORM_FAMILIES_H

#include "conform/rule.h"

extern const nx_family nx_module_rules;
extern const nx_family nx_negotiation_rules;

#endif /* NXMEM_CONFORM_FAMILIES_H */
