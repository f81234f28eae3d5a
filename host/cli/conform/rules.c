/*
 * rules.c: all rules.
 * No input. Promise: what a rule rests on exists, and is tried before it.
 */
#include <string.h>

#include "conform/families.h"
#include "conform/rule.h"

const nx_family *const NX_FAMILIES[] = {&nx_module_rules,          &nx_negotiation_rules, &nx_negotiation_misuse_rules,
                                        &nx_unload_rules,          &nx_enumeration_rules, &nx_module_life_rules,
                                        &nx_table_rules,           &nx_open_rules,        &nx_allocate_rules,
                                        &nx_allocate_misuse_rules, &nx_deallocate_rules,  &nx_structured_rules,
                                        &nx_release_misuse_rules,  &nx_deferred_rules,    &nx_backing_rules,
                                        &nx_backing_misuse_rules,  &nx_sharing_rules,     &nx_sharing_misuse_rules,
                                        &nx_status_rules,          &nx_stress_rules,      &nx_callback_rules};
const size_t NX_FAMILY_COUNT = sizeof NX_FAMILIES / sizeof NX_FAMILIES[0];

const nx_rule *nx_rule_at(size_t index) {
  for (size_t i = 0; i < NX_FAMILY_COUNT; i++) {
    if (index < NX_FAMILIES[i]->count) return &NX_FAMILIES[i]->rules[index];
    index -= NX_FAMILIES[i]->count;
  }
  return NULL;
}

const nx_rule *nx_rule_find(const char *id) {
  const nx_rule *rule;
  for (size_t i = 0; (rule = nx_rule_at(i)) != NULL; i++)
    if (!strcmp(rule->id, id)) return rule;
  return NULL;
}
