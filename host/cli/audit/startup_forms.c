/*
 * startup_forms.c: the code that crti.o, crtbeginS.o and clang_rt.crtbegin.o put into every shared object.
 * Attackers: code that looks like it and is not.
 * Promise: a form is its bytes; what it calls is a form as well, or a function of that name that another file defines.
 *
 * A form is text: two hexadecimal digits are a byte, blanks are nothing, and one letter is
 *   E     an endbr64 that may be there          H      a hint (nop, paciasp, autiasp, bti c) that may be there
 *   .     any four bytes: where data lies       R r    where data lies, into register r (two instructions)
 *   G s   the distance to a word that is bound to symbol s; Gs' counts from a byte further on
 *   P s   the distance to a stub that calls symbol s
 *   J f   the distance to a form f
 *   S rs  a word that is bound to symbol s, into register r (two instructions)
 *   C s   a call or jump to a stub that calls symbol s
 *   F f   a call or jump to a form f
 *   M     eight digits of a mask, eight of an instruction
 */
#include <stdlib.h>
#include <string.h>

#include "audit/startup.h"

static const char *const SYMBOL[] = {"__gmon_start__", "_ITM_registerTMCloneTable", "_ITM_deregisterTMCloneTable",
                                     "__cxa_finalize", "__register_frame_info",     "__deregister_frame_info"};

typedef struct form {
  uint16_t machine;
  int entry; /* the loader calls it; else only another form does */
  const char *text;
} form;

static const form FORM[] = {
    /* 0 register_tm_clones, 1 deregister_tm_clones */
    {EM_X86_64, 0,
     "488d3d. 488d35. 4829fe 4889f0 48c1ee3f 48c1f803 4801c6 48d1fe 7414 488b05G1 4885c0 7408 ffe0 660f1f440000 c3"},
    {EM_X86_64, 0, "488d3d. 488d05. 4839f8 7415 488b05G2 4885c0 7409 ffe0 0f1f8000000000 c3"},
    /* _init, _fini, frame_dummy, __do_global_dtors_aux */
    {EM_X86_64, 1, "E 4883ec08 488b05G0 4885c0 7402 ffd0 4883c408 c3"},
    {EM_X86_64, 1, "E 4883ec08 4883c408 c3"},
    {EM_X86_64, 1, "E e9J0"},
    {EM_X86_64, 1, "E 803d.00 752b 55 48833dG3'00 4889e5 740c 488b3d. e8P3 e8J1 c605.01 5d c3 0f1f00 c3"},
    /* clang's __do_init, __do_fini */
    {EM_X86_64, 1,
     "55 4889e5 f605.01 0f8405000000 e92f000000 c605.01 488b05G4 4885c0 0f8418000000 e900000000 488d3d. 488d35. e8P4 "
     "5d c3"},
    {EM_X86_64, 1,
     "55 4889e5 f605.01 0f8405000000 e949000000 c605.01 488b05G3 4885c0 0f8411000000 e900000000 488b3d. e8P3 488b05G5 "
     "4885c0 0f8411000000 e900000000 488d3d. e8P5 5d c3"},
    /* 8 register_tm_clones, 9 deregister_tm_clones, a call_weak_fn */
    {EM_AARCH64, 0, "R0 R1 210000cb 22fc7fd3 410c818b 21fc4193 c10000b4 S21 620000b4 f00302aa 00021fd6 c0035fd6"},
    {EM_AARCH64, 0, "R0 R1 3f0000eb c0000054 S12 610000b4 f00301aa 00021fd6 c0035fd6"},
    {EM_AARCH64, 0, "S00 400000b4 C0 c0035fd6"},
    /* _init, _fini, frame_dummy, __do_global_dtors_aux */
    {EM_AARCH64, 1, "H fd7bbfa9 fd030091 Fa fd7bc1a8 H c0035fd6"},
    {EM_AARCH64, 1, "H fd7bbfa9 fd030091 fd7bc1a8 H c0035fd6"},
    {EM_AARCH64, 1, "H F8"},
    {EM_AARCH64, 1,
     "H fd7bbea9 fd030091 f30b00f9 M9f00001f90000013 Mffc003ff39400260 40010035 S03 800000b4 M9f00001f90000000 "
     "Mffc003fff9400000 C3 F9 20008052 Mffc003ff39000260 f30b40f9 fd7bc2a8 H c0035fd6"}};

/* ---- Code -------------------------------------------------------------------------------------------------------- */

/* Where a comparison stands, in the code and in the form. */
typedef struct place {
  const nx_dynamic *dynamic;
  uint64_t at;
  const char *text;
} place;

static int read_code(const place *p, void *out, size_t length) {
  nx_problem ignored;
  return nx_elf_bytes(p->dynamic->file, p->at, out, length, "code", &ignored);
}

static int read_word(const place *p, uint32_t *out) { return read_code(p, out, sizeof *out); }

/* 1 where these bytes are next, and the place is behind them then. */
static int pass(place *p, const void *bytes, size_t length) {
  uint8_t found[8];
  if (read_code(p, found, length) || memcmp(found, bytes, length) != 0) return 0;
  p->at += length;
  return 1;
}

static int pass_masked(place *p, uint32_t mask, uint32_t value) {
  uint32_t word = 0;
  if (read_word(p, &word) || (word & mask) != value) return 0;
  p->at += sizeof word;
  return 1;
}

static uint32_t digit(char letter) { return (uint32_t)(letter <= '9' ? letter - '0' : letter - 'a' + 10); }

static int fits(const nx_dynamic *dynamic, uint64_t at, uint32_t number);

/* ---- x86-64 ------------------------------------------------------------------------------------------------------ */

static int pass_distance(place *p, uint64_t further, uint64_t *target) {
  int32_t distance = 0;
  if (read_code(p, &distance, sizeof distance)) return 0;
  p->at += sizeof distance;
  *target = p->at + further + (uint64_t)(int64_t)distance;
  return 1;
}

static int is_stub(const nx_dynamic *dynamic, uint64_t at, const char *symbol) {
  place p = {dynamic, at, ""};
  uint64_t word = 0;
  pass(&p, "\xf3\x0f\x1e\xfa", 4);
  pass(&p, "\xf2", 1);
  return pass(&p, "\xff\x25", 2) && pass_distance(&p, 0, &word) && nx_audit_is_bound_to(dynamic, word, symbol);
}

static int pass_x86(place *p) {
  const char letter = *p->text++;
  uint64_t target = 0;
  if (letter == 'E') return pass(p, "\xf3\x0f\x1e\xfa", 4) || 1;
  if (letter == '.') return pass_distance(p, 0, &target);
  const uint32_t number = digit(*p->text++);
  const uint64_t further = *p->text == '\'';
  p->text += further;
  if (!pass_distance(p, further, &target)) return 0;
  if (letter == 'G') return nx_audit_is_bound_to(p->dynamic, target, SYMBOL[number]);
  return letter == 'P' ? is_stub(p->dynamic, target, SYMBOL[number]) : fits(p->dynamic, target, number);
}

/* ---- aarch64 ----------------------------------------------------------------------------------------------------- */

static uint64_t extended(uint64_t value, unsigned bits) {
  const uint64_t sign = 1ull << (bits - 1);
  return (value ^ sign) - sign;
}

#define NOP 0xd503201fu
#define PACIASP 0xd503233fu
#define AUTIASP 0xd50323bfu
#define BTI_C 0xd503245fu

static int pass_hint(place *p) {
  static const uint32_t hints[] = {NOP, PACIASP, AUTIASP, BTI_C};
  for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
    if (pass_masked(p, UINT32_MAX, hints[i])) return 1;
  return 1;
}

#define PAGE_MASK 0x9f00001fu
#define PAGE 0x90000000u
#define NEAR 0x10000000u
#define OFFSET_MASK 0xffc003ffu
#define ADD 0x91000000u
#define LOAD 0xf9400000u

/* An address that nothing is called through: the linker may have shortened it to nop and adr. */
static int pass_data(place *p, uint32_t r) {
  place near = *p;
  if (pass_masked(p, PAGE_MASK, PAGE | r) && pass_masked(p, OFFSET_MASK, ADD | r << 5 | r)) return 1;
  if (!pass_masked(&near, UINT32_MAX, NOP) || !pass_masked(&near, PAGE_MASK, NEAR | r)) return 0;
  *p = near;
  return 1;
}

/* adrp and ldr: the address of the word that is loaded. */
static int pass_load(place *p, uint32_t page_register, uint32_t to, uint64_t *word) {
  uint32_t page = 0, load = 0;
  const uint64_t base = p->at & ~0xfffull;
  if (read_word(p, &page) || !pass_masked(p, PAGE_MASK, PAGE | page_register)) return 0;
  if (read_word(p, &load) || !pass_masked(p, OFFSET_MASK, LOAD | page_register << 5 | to)) return 0;
  const uint64_t pages = extended((uint64_t)(page >> 5 & 0x7ffff) << 2 | (page >> 29 & 3), 21);
  *word = base + (pages << 12) + (uint64_t)(load >> 10 & 0xfff) * 8;
  return 1;
}

enum { X16 = 16, X17 = 17 };

static int is_stub_arm(const nx_dynamic *dynamic, uint64_t at, const char *symbol) {
  place p = {dynamic, at, ""};
  uint64_t word = 0;
  pass_hint(&p);
  return pass_load(&p, X16, X17, &word) && pass_masked(&p, OFFSET_MASK, ADD | X16 << 5 | X16) &&
         pass_masked(&p, UINT32_MAX, 0xd61f0220) && nx_audit_is_bound_to(dynamic, word, symbol);
}

static int pass_branch(place *p, uint64_t *target) {
  uint32_t word = 0;
  *target = p->at;
  if (read_word(p, &word) || !pass_masked(p, 0x7c000000, 0x14000000)) return 0;
  *target += extended(word & 0x3ffffff, 26) << 2;
  return 1;
}

static int pass_mask(place *p) {
  char mask[9] = "", value[9] = "";
  memcpy(mask, p->text, 8);
  memcpy(value, p->text + 8, 8);
  p->text += 16;
  return pass_masked(p, (uint32_t)strtoul(mask, NULL, 16), (uint32_t)strtoul(value, NULL, 16));
}

static int pass_arm(place *p) {
  const char letter = *p->text++;
  uint64_t target = 0;
  if (letter == 'H') return pass_hint(p);
  if (letter == 'M') return pass_mask(p);
  const uint32_t number = digit(*p->text++);
  if (letter == 'R') return pass_data(p, number);
  if (letter == 'S') {
    const char *symbol = SYMBOL[digit(*p->text++)];
    return pass_load(p, number, number, &target) && nx_audit_is_bound_to(p->dynamic, target, symbol);
  }
  if (!pass_branch(p, &target)) return 0;
  return letter == 'C' ? is_stub_arm(p->dynamic, target, SYMBOL[number]) : fits(p->dynamic, target, number);
}

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

static int pass_byte(place *p) {
  const uint8_t byte = (uint8_t)(digit(p->text[0]) << 4 | digit(p->text[1]));
  p->text += 2;
  return pass(p, &byte, 1);
}

static int pass_next(place *p, uint16_t machine) {
  if (*p->text == ' ') return p->text++ != NULL;
  if (strchr("0123456789abcdef", *p->text)) return pass_byte(p);
  return machine == EM_X86_64 ? pass_x86(p) : pass_arm(p);
}

static int fits(const nx_dynamic *dynamic, uint64_t at, uint32_t number) {
  place p = {dynamic, at, FORM[number].text};
  while (*p.text)
    if (!pass_next(&p, FORM[number].machine)) return 0;
  return 1;
}

int nx_audit_is_compilers_own(const nx_dynamic *dynamic, uint64_t address) {
  for (uint32_t i = 0; i < sizeof FORM / sizeof FORM[0]; i++)
    if (FORM[i].entry && FORM[i].machine == dynamic->file->header.e_machine && fits(dynamic, address, i)) return 1;
  return 0;
}
