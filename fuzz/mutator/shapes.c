/*
 * shapes.c: how the inputs of each target are laid out. Made by fuzz/seeds/make_shapes.py from the wire header.
 * Attackers: none.
 * Promise: widths and sizes only; what a field means is the target's business.
 */
#include "mutator.h"

/* clang-format off */
#ifdef FUZZ_TARGET_fetch
static const uint8_t head[] = {1, 1, 4, 8, 0};
static const uint16_t edges[] = {0, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, NULL, edges};
#endif
#ifdef FUZZ_TARGET_table
static const uint8_t head[] = {1, 8, 8, 0};
static const uint16_t edges[] = {0, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, NULL, edges};
#endif
#ifdef FUZZ_TARGET_negotiate
static const uint8_t head[] = {1, 1, 4, 4, 4, 4, 4, 8, 4, 4, 4, 4, 4, 4, 4, 4, 8, 0};
static const uint16_t edges[] = {0, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, NULL, edges};
#endif
#ifdef FUZZ_TARGET_status
static const uint8_t head[] = {4, 4, 2, 0};
static const uint16_t edges[] = {0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 252, 255, 256, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, NULL, edges};
#endif
#ifdef FUZZ_TARGET_strings
static const uint8_t head[] = {1, 1, 4, 4, 2, 0};
static const uint16_t edges[] = {0, 1, 4, 8, 252, 255, 256, 511, 512, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, NULL, edges};
#endif
#ifdef FUZZ_TARGET_elf
static const uint8_t head[] = {16, 2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2, 0};
static const uint16_t edges[] = {0, 8, 16, 40, 56, 64, 4096, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, NULL, edges};
#endif
#ifdef FUZZ_TARGET_policy
static const uint8_t head[] = {1, 1, 1, 0};
static const uint16_t edges[] = {0, 8, 16, 40, 56, 64, 4096, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, NULL, edges};
#endif
#ifdef FUZZ_TARGET_core
static const uint8_t head[] = {1, 1, 0};
static const uint16_t edges[] = {0, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, NULL, edges};
#endif
#ifdef FUZZ_TARGET_lifecycle
static const uint8_t head[] = {1, 1, 14, 0};
static const uint8_t record[] = {1, 1, 1, 1, 1, 3, 8, 0};
static const uint16_t edges[] = {0, 8, 16, 40, 56, 64, 4096, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, record, edges};
#endif
#ifdef FUZZ_TARGET_deferred
static const uint8_t head[] = {1, 1, 14, 0};
static const uint8_t record[] = {1, 1, 1, 1, 1, 3, 8, 0};
static const uint16_t edges[] = {0, 8, 16, 40, 56, 64, 4096, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, record, edges};
#endif
#ifdef FUZZ_TARGET_load
static const uint8_t head[] = {1, 1, 14, 0};
static const uint8_t record[] = {1, 1, 1, 1, 1, 3, 8, 0};
static const uint16_t edges[] = {0, 8, 16, 40, 56, 64, 4096, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, record, edges};
#endif
#ifdef FUZZ_TARGET_vmm
static const uint8_t head[] = {1, 1, 1, 1, 1, 1, 2, 8, 0};
static const uint8_t record[] = {1, 1, 1, 1, 1, 3, 8, 0};
static const uint16_t edges[] = {0, 8, 16, 40, 56, 64, 4096, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, record, edges};
#endif
#ifdef FUZZ_TARGET_owners
static const uint8_t head[] = {1, 1, 14, 0};
static const uint8_t record[] = {1, 1, 1, 1, 1, 3, 8, 0};
static const uint16_t edges[] = {0, 8, 16, 40, 56, 64, 4096, 0xFFFF};
const fuzz_shape fuzz_target_shape = {head, record, edges};
#endif
