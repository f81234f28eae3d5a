/*
 * text.h: bytes that came from outside (file names, strings of an ELF file) made fit for a terminal and for JSON.
 * Attackers: a file name or a string table with control bytes, terminal escapes, invalid UTF-8 or megabytes of text.
 * Promise: what comes out is one line of printable UTF-8 of bounded length; the caller owns it and gives it to free().
 */
#ifndef NXMEM_CLI_TEXT_H
#define NXMEM_CLI_TEXT_H

#include <stddef.h>

/*
 * Escaped copy of `length` bytes; text beyond 4096 bytes is cut and ends in "...". Ends the process when memory is
 * out.
 */
char *nx_show(const void *bytes, size_t length);

/* nx_show() of a C string. */
char *nx_show_text(const char *text);

/* Well-formed UTF-8 without control characters: what a terminal and JSON take as it stands. 1 or 0. */
int nx_is_printable(const char *text);

/* What `bytes` are, as lower-case hexadecimal. */
char *nx_show_hex(const void *bytes, size_t length);

/* A path as a URI (RFC 3986: everything but unreserved characters and the slash becomes %XX). The caller's to free. */
char *nx_file_uri(const char *path);

/* What stands for a character in XML and HTML; NULL: itself. */
const char *nx_entity(char c);

/* "nxmem: out of memory ..." on stderr, exit code 3: the command holds nothing that others need. */
_Noreturn void nx_out_of_memory(void);

#endif /* NXMEM_CLI_TEXT_H */
