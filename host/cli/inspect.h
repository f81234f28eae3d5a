/*
 * inspect.h: what nxmem inspect makes of the facts about a file.
 * Attackers: names inside the file; they are escaped here.
 * Promise: each fact becomes one row with a verdict; a warning is something that a plugin should not have.
 */
#ifndef NXMEM_CLI_INSPECT_H
#define NXMEM_CLI_INSPECT_H

#include "elf_read.h"
#include "report.h"

void nx_inspect_rows(const nx_facts *facts, nx_report *report);

#endif /* NXMEM_CLI_INSPECT_H */
