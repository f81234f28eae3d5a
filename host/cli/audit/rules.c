/*
 * rules.c: the table of rules.
 * No input. Promise: one row per key, one id per row.
 */
#include "audit/rules.h"

#include <stddef.h>
#include <string.h>

const char *const NX_AUDIT_LEVEL_WORD[NX_AUDIT_LEVELS] = {"note", "warning", "error"};

const nx_audit_rule NX_AUDIT_RULE[NX_AUDIT_RULES] = {
    [NX_AUDIT_MISSING_EXPORT] =
        {"NXA-001", "missing-export", NX_AUDIT_ERROR, "an entry point of a plugin is not usable",
         "A host looks up three functions by name and refuses a file without all of them. This one defines some, but "
         "at least one is missing, hidden, no function, only asked for, or under a C++ name. Give it extern \"C\", "
         "default visibility and a body."},
    [NX_AUDIT_INDIRECT_EXPORT] =
        {"NXA-002", "indirect-export", NX_AUDIT_NOTE, "an entry point is an indirect function",
         "Looking the name up runs a resolver of the file. A host that only wants to know whether the name is there "
         "runs code by asking. Define a plain function instead."},
    [NX_AUDIT_OTHER_EXPORT] =
        {"NXA-003", "other-export", NX_AUDIT_NOTE, "it exports more than a host needs",
         "Every further symbol can be bound by other modules where the file is loaded globally, and is one more name "
         "to review. Compile with -fvisibility=hidden, or link with a version script that names the three."},
    [NX_AUDIT_INTERPOSER] =
        {"NXA-004", "interposer", NX_AUDIT_WARNING, "it exports a name that belongs to another library",
         "Defining malloc, dlopen, memcpy, a driver's function, or whatever else the C library or a library that the "
         "file needs defines as well, under default visibility takes the place "
         "of the real one for every module that is bound after this one in the same scope, and for the file itself. "
         "A plugin has no use for that. Rename the function, or hide it."},
    [NX_AUDIT_REACHES_OUT] =
        {"NXA-005", "reaches-out", NX_AUDIT_NOTE, "it asks for functions that reach beyond memory",
         "The file imports functions that start programs, open connections, load code, change the process's rights or "
         "touch other processes. An honest plugin can have a reason (a driver that is loaded at run time); a reviewer "
         "wants to know it. What is reached by a system call of its own, or by a name that dlsym() looks up, does not "
         "show "
         "here."},
    [NX_AUDIT_CONSTRUCTOR] =
        {"NXA-006", "constructor", NX_AUDIT_NOTE, "code of it runs when it is loaded",
         "DT_INIT and the entries of DT_INIT_ARRAY run inside dlopen(), before a host can judge anything the file "
         "says. "
         "What gcc and clang put into every shared object is recognised by its code, byte by byte, and not told; on a "
         "processor whose forms are not known it is told as well. Read what is at the address, and move the work to "
         "the first call."},
    [NX_AUDIT_DESTRUCTOR] =
        {"NXA-007", "destructor", NX_AUDIT_NOTE, "code of it runs when it is unloaded",
         "DT_FINI and the entries of DT_FINI_ARRAY run inside dlclose() or at exit, after a host's last check that "
         "nothing is left. What gcc and clang put into every shared object is recognised by its code, byte by byte, "
         "and "
         "not told. Read what is at the address."},
    [NX_AUDIT_PREINIT] =
        {"NXA-008", "preinit", NX_AUDIT_WARNING, "it has functions that only a program may have",
         "DT_PREINIT_ARRAY is for programs: the loader ignores it in a shared object, linkers refuse to make it, so "
         "the file was put together by other means. Find out by which."},
    [NX_AUDIT_IFUNC] =
        {"NXA-009", "ifunc", NX_AUDIT_NOTE, "it picks functions while it is loaded",
         "Resolvers of indirect functions run while relocations are made, before constructors and before a host can "
         "judge anything. Read them, or build without them."},
    [NX_AUDIT_TEXTREL] =
        {"NXA-010", "text-relocation", NX_AUDIT_ERROR, "its code is written to when it is loaded",
         "Text relocations make code pages writable for a time, cost every process a private copy, and are forbidden "
         "by hardened systems, where the file does not load. Compile everything with -fPIC."},
    [NX_AUDIT_STACK] =
        {"NXA-011", "executable-stack", NX_AUDIT_ERROR, "loading it makes stacks executable",
         "One file that asks for an executable stack, or does not say that it needs none, gives one to every thread of "
         "the process: what an overrun writes there can then be run. Mostly an assembler file lacks its "
         ".note.GNU-stack section. Link with -Wl,-z,noexecstack."},
    [NX_AUDIT_WRITABLE_CODE] =
        {"NXA-012", "writable-code", NX_AUDIT_ERROR, "a segment is writable and executable",
         "Memory that can be written and run turns any stray write into code. Link with -Wl,-z,separate-code and "
         "without --omagic."},
    [NX_AUDIT_NO_RELRO] =
        {"NXA-013", "no-relro", NX_AUDIT_WARNING, "its tables of addresses stay writable",
         "Without RELRO the tables through which the file calls others, and its tables of constant pointers, can be "
         "overwritten for as long as it is loaded. Link with -Wl,-z,relro,-z,now."},
    [NX_AUDIT_PARTIAL_RELRO] =
        {"NXA-014", "partial-relro", NX_AUDIT_NOTE, "its call table stays writable",
         "RELRO without immediate binding leaves the table of calls writable. Link with -Wl,-z,now."},
    [NX_AUDIT_LAZY_BINDING] =
        {"NXA-015", "lazy-binding", NX_AUDIT_NOTE, "a missing function may show late",
         "Where the host does not ask for immediate binding, a function that nobody defines ends the process at its "
         "first call instead of failing the load. Link with -Wl,-z,now."},
    [NX_AUDIT_RELATIVE_PATH] =
        {"NXA-016", "relative-path", NX_AUDIT_ERROR, "libraries are looked for in the working directory",
         "An empty or relative part of RPATH or RUNPATH, or a dependency named by a relative path, is resolved "
         "against wherever the process happens to stand: whoever can put a file there has their code run. Use an "
         "absolute path or $ORIGIN, and name dependencies without a slash."},
    [NX_AUDIT_SEARCH_PATH] =
        {"NXA-017", "search-path", NX_AUDIT_NOTE, "it has a search path of its own",
         "Libraries that it needs are looked for in these places before those of the system. Each of them has to be "
         "as well kept as the file itself. RPATH even comes before LD_LIBRARY_PATH, and holds for what its "
         "dependencies need as well."},
    [NX_AUDIT_MISSING_DEPENDENCY] =
        {"NXA-018", "missing-dependency", NX_AUDIT_ERROR, "a library that it needs was not found",
         "The loader looks in the file's own search path, in LD_LIBRARY_PATH, in the system's cache and in the "
         "default folders; so did this, for the file's libraries and for theirs. The file would not load here. Install "
         "the library, or look where the name "
         "comes from: a name nobody has can be taken by anybody."},
    [NX_AUDIT_MISSING_VERSION] =
        {"NXA-019", "missing-version", NX_AUDIT_ERROR, "a library is too old for it",
         "The file asks for a version of symbols that the library found here does not define, so it would not load. "
         "Build it on the oldest system that it is for, or update the library."},
    [NX_AUDIT_NODELETE] =
        {"NXA-020", "nodelete", NX_AUDIT_WARNING, "it stays mapped after it is unloaded",
         "With -z nodelete dlclose() has no effect: a host that unloads it to update or to get rid of it does not get "
         "rid of it. Link without it."},
    [NX_AUDIT_UNIQUE] =
        {"NXA-021", "unique-symbol", NX_AUDIT_WARNING, "a symbol keeps it mapped for good",
         "A symbol with GNU_UNIQUE binding (static members of C++ templates and inline functions) makes the loader "
         "keep the file until the process ends. Compile with -fno-gnu-unique, or hide the symbol."},
    [NX_AUDIT_NOOPEN] = {"NXA-022", "noopen", NX_AUDIT_ERROR, "the loader refuses it at run time",
                         "-z nodlopen forbids dlopen(), which is how every host loads a plugin. Link without it."},
    [NX_AUDIT_GLOBAL] =
        {"NXA-023", "global-scope", NX_AUDIT_WARNING, "it asks to be in everybody's scope",
         "The marks GLOBAL and INTERPOSE put the file's symbols where all other modules look first, whatever the "
         "host asked for when it loaded the file. A plugin is called through its three exports alone. Link without "
         "-z global and -z interpose."},
    [NX_AUDIT_FILTER] =
        {"NXA-024", "filter", NX_AUDIT_WARNING, "it brings other files in under its own name",
         "DT_FILTER and DT_AUXILIARY make the loader take symbols from another file, DT_AUDIT and DT_DEPAUDIT load "
         "one that watches the loader. None of them is among the dependencies that people look at. Link without -F, "
         "-f, --audit and --depaudit."},
    [NX_AUDIT_STATIC_TLS] =
        {"NXA-025", "static-tls", NX_AUDIT_NOTE, "it takes room that a process has only once",
         "Thread-local variables of the initial-exec model need static TLS, of which a running process has a fixed "
         "surplus. When other modules have used it up, loading fails. Compile without -ftls-model=initial-exec."},
    [NX_AUDIT_THREAD_DESTRUCTOR] =
        {"NXA-026", "thread-destructor", NX_AUDIT_NOTE, "a thread may keep it mapped",
         "It registers destructors of thread-local objects. Until they have run, at the end of each thread that made "
         "such an object, the loader keeps the file mapped after dlclose()."},
    [NX_AUDIT_NO_BUILD_ID] =
        {"NXA-027", "no-build-id", NX_AUDIT_NOTE, "nothing ties it to a build",
         "Without a build-id a crash report, a debug file or a policy cannot say which build this is. Link with "
         "-Wl,--build-id."},
    [NX_AUDIT_LARGE] =
        {"NXA-028", "large-file", NX_AUDIT_NOTE, "it is larger than plugins are",
         "More than 64 MiB is much for a memory plugin: libraries linked into it that should be dependencies, or data "
         "that nobody has reviewed."},
    [NX_AUDIT_FILE_WRITABLE] =
        {"NXA-029", "file-writable", NX_AUDIT_ERROR, "others may rewrite the file",
         "Whoever can write to the file decides what the next load runs, and what runs now where its pages are not "
         "yet read; the same holds of a library that it needs. Take write permission from group and others (chmod "
         "go-w). A group of the same number as its "
         "owner, the owner's private one, is not counted."},
    [NX_AUDIT_FILE_OWNER] =
        {"NXA-030", "file-owner", NX_AUDIT_WARNING, "the file belongs to somebody else",
         "Its owner is neither root nor the user who asks, and may change it at any time, permissions included. Have "
         "it owned by root or by the account that loads it."},
    [NX_AUDIT_FILE_SETID] =
        {"NXA-031", "set-id", NX_AUDIT_WARNING, "it carries a set-user-ID or set-group-ID bit",
         "The bits mean nothing on a shared object, unless somebody runs it as a program: then it runs with its "
         "owner's rights. Remove them (chmod ug-s)."},
    [NX_AUDIT_FOLDER_WRITABLE] =
        {"NXA-032", "folder-writable", NX_AUDIT_ERROR, "everybody may replace the file",
         "A directory on the way to the file, to a library that it needs or to a folder of its search path is writable "
         "by everybody and not sticky, so anybody can move the file or a folder away and put another in its place; or "
         "a folder of its search path is not there, and anybody can make it. Take the permission away (chmod o-w)."},
    [NX_AUDIT_FOLDER_GROUP] =
        {"NXA-033", "folder-group-writable", NX_AUDIT_WARNING, "a group may replace the file",
         "A directory on the way to the file is writable by a group, whose members can move the file or a folder away "
         "and put another in its place. Take the permission away (chmod g-w), or be sure of the group. A group of the "
         "same number as the owner, the owner's private one, is not counted."},
    [NX_AUDIT_FOLDER_STICKY] =
        {"NXA-034", "folder-shared", NX_AUDIT_NOTE, "it lies below a folder that all share",
         "A directory on the way is writable by everybody but sticky, as /tmp is. What is there cannot be replaced by "
         "others, but a name that is free can be taken by anybody. Load from a folder of your own."},
    [NX_AUDIT_FOLDER_OWNER] =
        {"NXA-035", "folder-owner", NX_AUDIT_WARNING, "a folder on the way belongs to somebody else",
         "The owner of a directory on the way to the file is neither root nor the user who asks, and may replace what "
         "is in it."},
    [NX_AUDIT_LINK] =
        {"NXA-036", "symbolic-link", NX_AUDIT_NOTE, "the path goes through a symbolic link",
         "What is loaded is decided by the link, which can be pointed elsewhere by whoever may write to its folder. "
         "The folders of the link and of what it names have both been looked at."},
    [NX_AUDIT_BREAKS_RULE] =
        {"NXA-037", "breaks-rule", NX_AUDIT_ERROR, "it breaks the contract between host and plugin",
         "The conformance test was run on it in a confined child process, and a rule without which a host cannot work "
         "was not kept. 'nxmem conform --explain ID' says what the rule demands; 'nxmem conform FILE --rule ID' tries "
         "it alone."},
    [NX_AUDIT_BREAKS_ADVICE] =
        {"NXA-038", "breaks-advice", NX_AUDIT_WARNING, "it does not keep a lesser rule of the contract",
         "The conformance test was run on it in a confined child process, and a rule that a host can live without was "
         "not kept. 'nxmem conform --explain ID' says what the rule demands."},
    [NX_AUDIT_UNJUDGED] =
        {"NXA-039", "unjudged", NX_AUDIT_WARNING, "it could not be judged while it ran",
         "The conformance test did not come to its end, or some rules could not be tried though nothing that they "
         "rest on was found broken: it took longer than the time limit, the process that judged died, or what it "
         "wrote made no sense. A plugin that ends whoever looks at it is nothing to load."},
    [NX_AUDIT_REFUSED] =
        {"NXA-040", "refused", NX_AUDIT_ERROR, "the host library refuses it",
         "Loaded behind the host library in a confined child process ('nxmem run'), the file was refused, had a "
         "mechanism refused, crashed, or could not be unloaded. A program that uses the library will meet the same."},
    [NX_AUDIT_WARNED] =
        {"NXA-041", "warned", NX_AUDIT_WARNING, "the host library warns of it",
         "Loaded behind the host library in a confined child process ('nxmem run'), the file did something that the "
         "library puts up with and reports: numbers that it corrected, a call that it refused, a module that stays "
         "mapped."},
    [NX_AUDIT_NO_MECHANISM] =
        {"NXA-042", "no-mechanism", NX_AUDIT_NOTE, "it offers nothing here",
         "The plugin was loaded and published no mechanism, or one of a device refused to be opened because the device "
         "or its driver is not on this machine. What it would do there could not be tried. Run the audit where the "
         "device is."},
    [NX_AUDIT_CHANGED] =
        {"NXA-043", "changed", NX_AUDIT_ERROR, "the file changed while it was looked at",
         "The static part judged a copy that was read once; the path holds other bytes, another file or nothing now, "
         "or the file was renamed, written to or given another mode or owner meanwhile and put back as it was. "
         "What was loaded is not known to be what was judged. Find out who writes there, and run the audit again."},
    [NX_AUDIT_UNCONFINED] =
        {"NXA-044", "unconfined", NX_AUDIT_NOTE, "part of the confinement was not available",
         "The plugin's code ran in a child process that is cut off from the network, from writing to files and from "
         "other processes as far as the kernel offers it. What is named here it did not offer, or refused. Where that "
         "matters, run the audit in a virtual machine or a container, or with --static."},
    [NX_AUDIT_NOT_RUN] =
        {"NXA-045", "not-run", NX_AUDIT_NOTE, "none of its code was run",
         "Only the static part was asked for (--static): nothing is known about what the plugin does, about its "
         "mechanisms and their capabilities."},
    [NX_AUDIT_MANY_DEPENDENCIES] = {"NXA-046", "many-dependencies", NX_AUDIT_WARNING,
                                    "it names more than was looked at",
                                    "Of the libraries that it needs, or of the folders where they are to be looked "
                                    "for, only the first were looked "
                                    "at; whether the others are here, and new enough, is not known. A plugin needs a "
                                    "handful: the file was made to "
                                    "be tiresome, or by a tool that went wrong. Find out by which."},
    [NX_AUDIT_LEAVES_PROCESSES] =
        {"NXA-047", "leaves-processes", NX_AUDIT_WARNING, "processes of it ran on when its host had ended",
         "It started processes, and some of them were there when the process that had loaded it was gone: unloading "
         "the plugin, or ending the host, does not end what it does. The audit ended them. A plugin has no use for "
         "processes; one that starts any has to end and reap them before its host may unload it."},
};

const nx_audit_rule *nx_audit_rule_find(const char *word) {
  for (int i = 0; i < NX_AUDIT_RULES; i++)
    if (!strcmp(word, NX_AUDIT_RULE[i].id) || !strcmp(word, NX_AUDIT_RULE[i].name)) return &NX_AUDIT_RULE[i];
  return NULL;
}
