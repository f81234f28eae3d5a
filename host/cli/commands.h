/*
 * commands.h: the subcommands of nxmem.
 * Attackers: none beyond what each subcommand reads.
 * Promise: each parses its own arguments (a wrong command line ends the process with NX_EXIT_USAGE) and returns an
 * exit code.
 */
#ifndef NXMEM_CLI_COMMANDS_H
#define NXMEM_CLI_COMMANDS_H

/* argv[0] is what usage messages name: "nxmem inspect". */
int nx_inspect(int argc, char **argv);
int nx_run(int argc, char **argv);
int nx_conform(int argc, char **argv);
int nx_status(int argc, char **argv);
int nx_audit(int argc, char **argv);

#endif /* NXMEM_CLI_COMMANDS_H */
