/*
 * identity_test.c: devices, tiers and mechanisms, row by row.
 *
 * Attackers played: one mechanism's object handed to another; an answer for a device nobody asked for.
 * Promise: equal means equal in every part, and a difference shows both numbers.
 */
#include "nxmem/identity.h"

#include "support.h"

#define U32_MAX 0xFFFFFFFFu
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define DEVICE_NUMBER(tier, index) ((uint64_t)(tier) << 32 | (index))

typedef struct tier_row {
  const char *name;
  uint32_t tier;
  nxmem_verdict want;
} tier_row;

static const tier_row tier_rows[] = {
    {"tier DEVICE", 0, ALLOW},
    {"tier HOST", 1, ALLOW},
    {"tier DISK", 2, ALLOW},
    {"tier 3", 3, {NXMEM_REASON_UNKNOWN_TIER, 0, 3, 2}},
    {"tier 2^32-1", U32_MAX, {NXMEM_REASON_UNKNOWN_TIER, 0, U32_MAX, 2}},
};

static void test_tier(void **state) {
  const tier_row *row = *state;
  nx_assert_verdict(nxmem_check_tier(row->tier), row->want);
}

typedef struct left_out_row {
  const char *name;
  uint32_t tier, declared, ceiling;
  int want;
} left_out_row;

static const left_out_row left_out_rows[] = {
    {"left out: an unknown tier of a newer level", 3, 2, 1, 1},
    {"left out: an unknown tier of our level", 3, 1, 1, 0},
    {"left out: an unknown tier of an older level", 3, 0, 1, 0},
    {"left out: a known tier of a newer level", 2, 2, 1, 0},
    {"left out: tier 2^32-1 of level 2^32-1", U32_MAX, U32_MAX, U32_MAX - 1, 1},
};

static void test_left_out(void **state) {
  const left_out_row *row = *state;
  assert_int_equal(nxmem_tier_is_left_out(row->tier, row->declared, row->ceiling), row->want);
}

typedef struct identity_row {
  const char *name;
  uint64_t mechanism;
  NxmemDeviceId device;
  uint64_t needed_mechanism;
  NxmemDeviceId needed_device;
  nxmem_verdict want;
} identity_row;

#define OTHER_DEVICE(ft, fi, nt, ni) \
  { NXMEM_REASON_OTHER_DEVICE, 24, DEVICE_NUMBER(ft, fi), DEVICE_NUMBER(nt, ni) }

static const identity_row identity_rows[] = {
    {"same in every part", 7, {1, 2}, 7, {1, 2}, ALLOW},
    {"all zero", 0, {0, 0}, 0, {0, 0}, ALLOW},
    {"all ones", UINT64_MAX, {U32_MAX, U32_MAX}, UINT64_MAX, {U32_MAX, U32_MAX}, ALLOW},
    {"another mechanism", 8, {1, 2}, 7, {1, 2}, {NXMEM_REASON_OTHER_MECHANISM, 8, 8, 7}},
    {"another mechanism in its high half",
     7ull << 32,
     {1, 2},
     7,
     {1, 2},
     {NXMEM_REASON_OTHER_MECHANISM, 8, 7ull << 32, 7}},
    {"another tier", 7, {0, 2}, 7, {1, 2}, OTHER_DEVICE(0, 2, 1, 2)},
    {"another index", 7, {1, 3}, 7, {1, 2}, OTHER_DEVICE(1, 3, 1, 2)},
    {"tier and index swapped", 7, {2, 1}, 7, {1, 2}, OTHER_DEVICE(2, 1, 1, 2)},
    {"another tier and index", 7, {U32_MAX, 0}, 7, {0, U32_MAX}, OTHER_DEVICE(U32_MAX, 0, 0, U32_MAX)},
    {"mechanism is named before the device", 8, {0, 0}, 7, {1, 2}, {NXMEM_REASON_OTHER_MECHANISM, 8, 8, 7}},
};

static void test_identity(void **state) {
  const identity_row *row = *state;
  nx_assert_verdict(nxmem_check_identity(row->mechanism, row->device, row->needed_mechanism, row->needed_device),
                    row->want);
}

static void test_device(void **state) {
  (void)state;
  const NxmemDeviceId devices[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {U32_MAX, 0}, {0, U32_MAX}};
  for (size_t i = 0; i < 6; i++)
    for (size_t j = 0; j < 6; j++) {
      const nxmem_verdict got = nxmem_check_device(devices[i], devices[j]);
      assert_int_equal(nxmem_same_device(devices[i], devices[j]), i == j);
      if (i == j) {
        nx_assert_verdict(got, (nxmem_verdict)ALLOW);
        continue;
      }
      nx_assert_verdict(
          got, (nxmem_verdict)OTHER_DEVICE(devices[i].tier, devices[i].index, devices[j].tier, devices[j].index));
    }
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(tier_rows), test_tier);
  nx_suite_rows(&suite, ROWS(left_out_rows), test_left_out);
  nx_suite_rows(&suite, ROWS(identity_rows), test_identity);
  nx_suite_add(&suite, "every pair of six devices", test_device, NULL);
  return nx_suite_run(&suite, "identity");
}
