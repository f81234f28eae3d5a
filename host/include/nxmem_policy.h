/*
 * nxmem_policy.h: load only what a policy names, byte for byte, and keep it within what the policy grants.
 *
 * Attackers: whoever can write to a plugin's file, its name, a directory above it or the policy, before and while it is loaded.
 * Promise: what was checked is what is loaded; whatever cannot be checked is refused, in one line, and nothing of it is loaded.
 *
 * The file is copied into memory of its own, which is sealed: from then on nobody, this process included, can change, shorten or lengthen it. That copy is hashed,
 * compared with the policy, and loaded; its descriptor stays open as long as anything of it is mapped, for the dynamic loader knows an object by the name it
 * was opened by, here /proc/self/fd/N, and would answer with the old one for the number of a closed descriptor.
 *
 * Not pinned are the libraries that a plugin needs: the dynamic loader finds them as it always does, by LD_LIBRARY_PATH, RUNPATH and the system's folders. What
 * the pinned bytes name is listed in nxmem_policy_report. $ORIGIN is /proc/self/fd for a pinned plugin and so finds nothing: one that looks for its own
 * dependencies beside it does not load. Nor is a plugin contained: its code runs in this process and can do what the process can.
 *
 * nxmem_plugin_open_sealed() is in libnxmem. All else here is in libnxmem_policy, which needs libjansson, libsodium and libelf as well.
 */
#ifndef NXMEM_POLICY_H
#define NXMEM_POLICY_H

#include "nxmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Loading sealed bytes (libnxmem) ----------------------------------------------------------------------------- */

/* More bytes than any total may reach: no limit. */
#define NXMEM_UNLIMITED 0x8000000000000000ull

typedef struct nxmem_sealed_options {
  const char *name;          /* what messages call it; borrowed for the call. NULL: "sealed file" */
  uint64_t capability_flags; /* ceiling: of what the host offers only these are offered; ALLOCATOR must be among them */
  uint64_t max_owned_bytes;  /* over all allocators of the plugin, as it reports them; at most NXMEM_UNLIMITED */
  uint64_t max_mapped_bytes; /* the same for mapped bytes */
} nxmem_sealed_options;

/*
 * Load a plugin from a sealed memory file (memfd_create): nxmem_plugin_open() for bytes that can no longer change. Ceiling and limits hold until it is unloaded.
 *
 * fd       The caller's: opened anew by the host, and may be closed afterwards. Must carry F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL: the host looks.
 * options  NULL: all that the host offers, no limits.
 *
 * An allocation, a commit or a shared mapping that would pass a limit is NXMEM_ERR_OVER_LIMIT: given back to the plugin, and no violation of the contract. The limits
 * are exact, on any number of threads. Bytes of a shared prefix count from the first commit on, as in all books of the host.
 *
 * The same bytes opened again are the same module with one more reference, whatever descriptor they come by; while something of them stays mapped (a forced leak, a module
 * that the loader keeps) the host keeps one descriptor for them.
 *
 * NXMEM_ERR_INVALID_ARGUMENT  a seal is missing, or the ceiling lacks ALLOCATOR, or a limit is above NXMEM_UNLIMITED.
 * NXMEM_ERR_MISMATCH          the same bytes are loaded already, under another ceiling or other limits.
 * And what nxmem_plugin_open() answers.
 *
 * [any-thread] [runs plugin code] [re-entrant] [blocks: the dynamic loader]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_plugin_open_sealed(nxmem_host host, int fd,
                                                   const nxmem_sealed_options *options, nxmem_plugin *out,
                                                   nxmem_error *error);

/* ---- Policies (libnxmem_policy) ---------------------------------------------------------------------------------- */

/*
 * A policy is a JSON document:
 *
 *   {"version": 1,
 *    "max_file_bytes": 67108864,
 *    "plugins": [
 *      {"path": "/usr/lib/nxmem/libvendor.so",
 *       "build_id": "5d3f...",
 *       "sha256": "64 hexadecimal digits",
 *       "signature": {"file": "/usr/lib/nxmem/libvendor.so.minisig", "public_key": "RW..."},
 *       "capabilities": ["allocator", "virtual-backing"],
 *       "max_owned_bytes": 1073741824,
 *       "max_mapped_bytes": "unlimited",
 *       "isolation": "none"}]}
 *
 * version           1.
 * max_file_bytes    May be left out: 64 MiB. At most 1 GiB. A larger file is refused before it is copied.
 * path, build_id    Which file the row is about; at least one. A path is absolute, without empty, "." and ".." parts, and is compared as it is written. A row with a
 *                   build id alone fits any path that no row names; with both, both must fit. No two rows name one path, nor do two without a path one hash:
 *                   the same file may stand at several paths, each with what its row grants.
 * sha256            Of the whole file.
 * signature         May be left out. A signature file and a public key as minisign writes them, prehashed (ED) or not (Ed); key id, signature and the signature
 *                   over the trusted comment must all be good.
 * capabilities      The ceiling: what is not named is not offered. Words as `nxmem run` shows them; "allocator" must be among them.
 * max_..._bytes     Whole numbers of bytes, at least 1, or "unlimited".
 * isolation         What the process must have put on itself before it loads, looked up for every thread in /proc/self/task:
 *                     "none"         nothing.
 *                     "no-new-privs" PR_SET_NO_NEW_PRIVS: no execve gains privileges.
 *                     "seccomp"      that, and a seccomp filter. What the filter forbids is not looked at: that is the deployer's.
 *
 * Every other key, a key that is missing or there twice, a value of another type or out of its range refuses the whole policy.
 */
typedef struct nxmem_policy nxmem_policy;

/*
 * Read a policy from a file.
 *
 * path  Absolute. NULL: what the environment variable NXMEM_POLICY names, or else /etc/nxmem/policy.json; a process that gained privileges when it was executed
 *       (AT_SECURE) does not look at the environment.
 * out   Written only on NXMEM_OK. Owned by the caller until nxmem_policy_free().
 *
 * The policy, each plugin and each signature file must be regular files that nobody but their owner can write to; owner and every directory above belong to
 * root or to the effective user. A directory that its group or others can write to is refused unless it has the sticky bit. (An access list that grants writing shows
 * in the bits of the group.) A symbolic link anywhere on the path is refused. Devices and FIFOs are never opened.
 *
 * NXMEM_ERR_CANNOT_OPEN       no such file, or none that may be trusted; the message says which part of the path, and why.
 * NXMEM_ERR_INVALID_ARGUMENT  it is no policy; the message says where.
 * NXMEM_ERR_OUT_OF_MEMORY
 *
 * [any-thread] [blocks: file I/O, never on a FIFO]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_policy_load(const char *path, nxmem_policy **out, nxmem_error *error);

/* The same for text that the caller has: `bytes` of it, borrowed for the call. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_policy_parse(const char *text, size_t bytes, nxmem_policy **out,
                                             nxmem_error *error);

/* Plugins that were opened under it are not affected. NULL: nothing. [any-thread] */
NXMEM_PUBLIC void nxmem_policy_free(nxmem_policy *policy);

/* What a policy opened. */
typedef struct nxmem_policy_report {
  char sha256[65];             /* of the loaded bytes */
  char build_id[129];          /* of the loaded bytes; "" where they have none */
  char key_id[17];             /* of the key whose signature was verified; "" where the policy asks for none */
  char trusted_comment[256];   /* of that signature, cut, and made printable */
  uint64_t file_bytes;
  uint64_t capability_flags;   /* the ceiling */
  uint64_t max_owned_bytes;
  uint64_t max_mapped_bytes;
  uint32_t dependency_count;   /* libraries that the loaded bytes need. Their files are not pinned */
  const char *const *dependencies; /* names as the loader looks for them, made printable; the report's */
  const char *search_path;     /* RUNPATH, or else RPATH; NULL: none. The report's */
} nxmem_policy_report;

/*
 * Open a plugin that the policy names: the file is copied, sealed, hashed, compared, and loaded as nxmem_plugin_open_sealed() does.
 *
 * policy      Unchanged; may serve any number of threads at once.
 * path        Absolute; as the policy writes it, where its row has a path.
 * report_out  Written only on NXMEM_OK; the caller's until nxmem_policy_report_free(). May be NULL.
 *
 * NXMEM_ERR_NOT_ALLOWED   no row names the file, or it is not what the row says: hash, build id, signature, isolation.
 * NXMEM_ERR_CANNOT_OPEN   not there, not to be trusted (nxmem_policy_load), larger than max_file_bytes, or no plugin.
 * And what nxmem_plugin_open_sealed() answers.
 *
 * [any-thread] [runs plugin code] [re-entrant] [blocks: file I/O, never on a FIFO; the dynamic loader]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_policy_open(const nxmem_policy *policy, nxmem_host host, const char *path,
                                            nxmem_plugin *out, nxmem_policy_report **report_out, nxmem_error *error);

/* NULL: nothing. [any-thread] */
NXMEM_PUBLIC void nxmem_policy_report_free(nxmem_policy_report *report);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_POLICY_H */
