/*
 * misuse.c: what no caller may ask, and unloading under owners.
 * Attackers: arguments that are NULL, unknown or contradict each other.
 * Promise: each is refused by its own code and changes nothing; a module goes only when nobody owns anything of it.
 */
#include <string.h>

#include "owners.h"

static nxmem_result bad_call(uint32_t kind, uint8_t which) {
  const own_mechanism *m = &own.mechanisms[which % OWN_MECHANISMS];
  const own_manager *manager = &own.managers[which % OWN_MANAGERS];
  const nxmem_registry registry = own.registries[which % OWN_REGISTRIES].handle;
  const nxmem_context context = {own.contexts[which % OWN_MEMBERS].handle};
  const nxmem_authority authority = {own.authorities[which % OWN_MEMBERS].handle};
  const nxmem_part parts[2] = {{it.plugins[0], NULL}, {it.plugins[0], NULL}};
  const nxmem_axes axes = {0, 0, 0};
  nxmem_mechanism mechanism = {0};
  switch (kind % 24u) {
    case 0:
      return nxmem_registry_create(NULL, NULL);
    case 1:
      return nxmem_registry_count(registry, NULL, NULL);
    case 2:
      return nxmem_context_create(registry, NULL, NULL);
    case 3:
      return nxmem_authority_create(registry, NULL, NULL);
    case 4:
      return nxmem_context_pins(context, NULL, NULL);
    case 5:
      return nxmem_mechanism_register(context, authority, it.plugins[0], NULL, NULL, NULL);
    case 6:
      return nxmem_mechanism_register_composite_trusted(context, authority, parts, kind & 32u ? 1u : 5u, &mechanism,
                                                        NULL);
    case 7:
      return nxmem_mechanism_register_composite_trusted(context, authority, NULL, 2, &mechanism, NULL);
    case 8:
      return nxmem_mechanism_get_state(m->handle, NULL, NULL);
    case 9:
      return nxmem_registry_mechanisms(registry, 0, NULL, 1, NULL, NULL, NULL);
    case 10:
      return nxmem_registry_selected(registry, own_devices[0], NULL, NULL);
    case 11:
      return nxmem_bind_mechanism(m->handle, NULL, NULL);
    case 12:
      return nxmem_binding_get_info(own.bindings[which % OWN_BINDINGS].handle, NULL, NULL);
    case 13:
      return nxmem_bound_allocate(own.bindings[which % OWN_BINDINGS].handle, 1, 1, NULL, NULL, NULL);
    case 14:
      return nxmem_bound_release(NULL, NULL);
    case 15:
      return nxmem_bound_prepare(&own.blocks[which % LIFE_BLOCKS].bound, NULL, NULL);
    case 16:
      return nxmem_mechanism_quarantine(m->handle, 0, NULL, 1, NULL, NULL, NULL);
    case 17:
      return nxmem_manager_create(NULL, NULL);
    case 18:
      return nxmem_manager_set_budget(manager->handle, authority, NULL, NULL, NULL);
    case 19:
      return nxmem_manager_delegate(manager->handle, authority, NULL, NULL);
    case 20:
      return nxmem_manager_allocate(manager->handle, NULL, NULL, NULL, NULL, NULL);
    case 21:
      return nxmem_manager_add_pressure(manager->handle, NULL, NULL, 0, NULL, NULL);
    case 22:
      return kind & 32u ? nxmem_manager_ask(manager->handle, authority, &axes, NULL, NULL)
                        : nxmem_transaction_publish((nxmem_transaction){own.charges[which % OWN_CHARGES].handle}, NULL,
                                                    NULL, NULL);
    default:
      return kind & 32u ? nxmem_manager_snapshot(manager->handle, NULL, NULL)
                        : nxmem_bound_commit(NULL, (NxmemByteRange){0, 1}, NULL);
  }
}

void own_op_misuse(const life_record *op) {
  own_result("what no caller may ask", bad_call(op->b, op->a), NXMEM_ERR_INVALID_ARGUMENT);
}

/* A second reference: its handle goes only where the last one could. */
void own_op_unload(const life_record *op) {
  if ((op->c & 1u) == 0 && !it.plugin_open[1]) {
    if (it.depth == 0) (void)life_load(1);
    return;
  }
  (void)life_unload(1);
}
