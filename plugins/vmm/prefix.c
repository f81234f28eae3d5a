/*
 * prefix.c: shared prefixes: granules whose bytes several blocks map for reading.
 *
 * Attackers: handles that are stale or made up; a driver that fails at any call; handle and mappings that go in any order.
 * Promise: only the owner's mapping can be written through; the bytes go exactly when the last handle and the last mapping are gone; they are charged once.
 */
#include <stdlib.h>

#include "engine.h"
#include "nxmem/range.h"
#include "nxmem/status.h"

static nx_figure last_number;

/* ---- Making -------------------------------------------------------------------------------------------------------- */

static void unmake(nx_prefix *prefix) {
  free(prefix->handles);
  free(prefix->kept);
  free(prefix);
}

static nx_prefix *new_prefix(nx_engine *engine, uint64_t bytes, const nxmem_block *place) {
  nx_prefix *prefix = calloc(1u, sizeof *prefix);
  if (prefix == NULL) return NULL;
  prefix->bytes = bytes;
  if (nx_spans_take(&engine->spans, place, &prefix->first)) {
    prefix->owner = nx_granules_of(engine, prefix->first, place->bytes);
    prefix->handles = calloc(prefix->owner.count, sizeof *prefix->handles);
    prefix->kept = calloc(prefix->owner.count, 1u);
    if (prefix->handles != NULL && prefix->kept != NULL) return prefix;
    (void)nx_spans_give(&engine->spans, prefix->first, place->bytes);
  }
  unmake(prefix);
  return NULL;
}

static uint64_t physical(const nx_engine *engine, const nx_prefix *prefix) {
  return nx_granule_bytes(engine, prefix->owner.count);
}

static void list(nx_engine *engine, nx_prefix *prefix) {
  prefix->number = atomic_fetch_add(&last_number, 1u) + 1u;
  prefix->use.handles = 1u;
  (void)nxmem_prefix_view(&prefix->use);
  prefix->next = engine->prefixes;
  engine->prefixes = prefix;
  nx_add(&nx_the_report.capabilities, 1u);
}

uint32_t nx_prefix_make_locked(nx_engine *engine, uint64_t bytes, nx_prefix **out, nx_loss *loss_out) {
  nxmem_block place;
  uint64_t mapped = 0u;
  const uint64_t granule = engine->device.granule;
  *loss_out = (nx_loss){0u, 0u};
  const nxmem_verdict asked = nxmem_place_ask(bytes, granule, granule, &place);
  if (asked.reason != NXMEM_REASON_NONE) return nxmem_reason_status(asked.reason);
  nx_prefix *prefix = new_prefix(engine, bytes, &place);
  if (prefix == NULL) return nx_no_room_locked(engine);
  const nx_commit what = {prefix->owner, 1, NXMEM_MAPPING_OWNER, prefix->handles};
  const uint32_t status = nx_commit_locked(engine, &what, &mapped, loss_out);
  if (status == NXMEM_STATUS_OK) {
    list(engine, prefix);
    *out = prefix;
    return status;
  }
  if (loss_out->bytes != 0u)
    nx_keep_back_locked(engine, prefix->first, place.bytes);
  else
    (void)nx_spans_give(&engine->spans, prefix->first, place.bytes);
  unmake(prefix);
  return status;
}

nx_prefix *nx_prefix_find_locked(const nx_engine *engine, uint64_t number, uint64_t address) {
  for (nx_prefix *prefix = engine->prefixes; prefix != NULL; prefix = prefix->next)
    if (prefix->number == number && prefix->first == address && prefix->use.handles != 0u) return prefix;
  return NULL;
}

/* ---- The end ------------------------------------------------------------------------------------------------------- */

/* One of its mappings has ended; of those granules that could not be unmapped the handles stay what they are: mapped for good. */
static void end_mapping(const nx_engine *engine, nx_prefix *prefix, nx_run run) {
  for (uint64_t i = 0u; i < run.count; i++)
    if (engine->table.granules[run.first + i].poisoned) prefix->kept[i] = 1u;
  (void)nxmem_prefix_unview(&prefix->use);
}

/* It was unmapped; the driver will not take its handle back, so that its bytes stay. */
static void count_kept(const nx_engine *engine, nx_undone *out) {
  const uint64_t granule = engine->device.granule;
  out->loss.bytes += granule;
  out->unmapped -= out->unmapped < granule ? out->unmapped : granule;
}

static void end_if_gone(nx_engine *engine, nx_prefix *prefix, nx_undone *out) {
  if (!nxmem_prefix_is_gone(&prefix->use)) return;
  for (uint64_t i = 0u; i < prefix->owner.count; i++)
    if (!prefix->kept[i] && !nx_handle_put_locked(engine, prefix->handles[i])) count_kept(engine, out);
  nx_prefix **link = &engine->prefixes;
  while (*link != prefix) link = &(*link)->next;
  *link = prefix->next;
  unmake(prefix);
}

/* The owner's mapping, and with it the prefix where nobody maps it any more. */
static void end_owner(nx_engine *engine, nx_prefix *prefix, uint32_t begun, nx_undone *out) {
  const uint64_t first = prefix->first, bytes = physical(engine, prefix);
  nx_uncommit_begun_locked(engine, prefix->owner, begun, out);
  end_mapping(engine, prefix, prefix->owner);
  (void)nxmem_prefix_use_release(&prefix->use);
  nx_take(&nx_the_report.capabilities, 1u);
  end_if_gone(engine, prefix, out);
  if (out->loss.bytes == 0u) {
    (void)nx_spans_give(&engine->spans, first, bytes);
    return;
  }
  nx_keep_back_locked(engine, first, bytes);
  out->status = NXMEM_STATUS_RELEASE_QUARANTINED;
}

void nx_prefix_release_locked(nx_engine *engine, nx_prefix *prefix, nx_undone *out) {
  *out = (nx_undone){.status = NXMEM_STATUS_OK};
  if (prefix->use.handles > 1u) {
    (void)nxmem_prefix_use_release(&prefix->use);
    return;
  }
  const uint32_t begun = nx_device_begin(&engine->device);
  if (begun == NX_VMM_CAPTURING) {
    out->status = NXMEM_STATUS_BUSY;
    return;
  }
  end_owner(engine, prefix, begun, out);
  if (begun == NX_VMM_DONE) nx_device_end(&engine->device);
}

void nx_prefixes_close(nx_engine *engine) {
  while (engine->prefixes != NULL) {
    nx_prefix *prefix = engine->prefixes;
    engine->prefixes = prefix->next;
    if (prefix->use.handles != 0u) nx_take(&nx_the_report.capabilities, 1u);
    unmake(prefix);
  }
}

/* ---- Views --------------------------------------------------------------------------------------------------------- */

void nx_views_drop_locked(nx_engine *engine, nx_block *block, nx_undone *out) {
  nx_take(&nx_the_report.views, block->view_count);
  block->view_count = 0u;
  while (block->views != NULL) {
    nx_view *view = block->views;
    block->views = view->next;
    end_mapping(engine, view->prefix, view->run);
    end_if_gone(engine, view->prefix, out);
    free(view);
  }
}

static int begins_a_granule(const nx_engine *engine, uint64_t address) {
  return nxmem_round_down(address - engine->base, engine->device.granule) == address - engine->base;
}

static uint32_t map_view(nx_engine *engine, nx_view *view, uint64_t *mapped_out, nx_loss *loss_out) {
  const nx_commit what = {view->run, 1, NXMEM_MAPPING_SHARER, view->prefix->handles};
  if (nxmem_prefix_view(&view->prefix->use).reason != NXMEM_REASON_NONE) return NXMEM_STATUS_BUSY;
  const uint32_t status = nx_commit_locked(engine, &what, mapped_out, loss_out);
  if (status == NXMEM_STATUS_OK) return status;
  /* What was poisoned there before maps no handle of this prefix. */
  if (loss_out->granules != 0u)
    end_mapping(engine, view->prefix, view->run);
  else
    (void)nxmem_prefix_unview(&view->prefix->use);
  return status;
}

uint32_t nx_prefix_commit_locked(nx_engine *engine, nx_prefix *prefix, nx_block *block, uint64_t offset,
                                 uint64_t *mapped_out, nx_loss *loss_out) {
  *loss_out = (nx_loss){0u, 0u};
  const nxmem_verdict inside = nxmem_check_range(offset, prefix->bytes, block->bytes);
  if (inside.reason != NXMEM_REASON_NONE) return nxmem_reason_status(inside.reason);
  if (!begins_a_granule(engine, block->first + offset)) return NXMEM_STATUS_INVALID_ARGUMENT;
  nx_view *view = malloc(sizeof *view);
  if (view == NULL) return NXMEM_STATUS_OUT_OF_MEMORY;
  *view = (nx_view){block->views, prefix, nx_granules_of(engine, block->first + offset, prefix->bytes)};
  const uint32_t status = map_view(engine, view, mapped_out, loss_out);
  block->kept_bytes += loss_out->bytes;
  block->mapped_bytes += loss_out->bytes;
  if (status != NXMEM_STATUS_OK) {
    free(view);
    return status;
  }
  block->views = view;
  block->view_count++;
  block->mapped_bytes += *mapped_out;
  nx_add(&nx_the_report.views, 1u);
  return status;
}
