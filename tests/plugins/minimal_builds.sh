#!/bin/sh
# minimal_builds.sh: is the minimal plugin one file to copy? Each compiler gets it and the wire header, nothing else.
#
# Attackers played: other compilers, another operating system's C library, a source that leans on files of ours.
# Promise: TAP, one line per compiler and check; a missing compiler is a failure.
set -u
source_dir=$1
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
cp "$source_dir/plugins/minimal/nxmem_minimal.c" "$source_dir/abi/include/nxmem_memory_abi.h" "$place/" || exit 1
cd "$place" || exit 1

warnings="-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wconversion -Werror"
wanted="NxmemCreateAllocatorFactories NxmemNegotiate NxmemQueryUnloadReadiness"
count=0
failed=0

verdict() { # status name
  count=$((count + 1))
  if [ "$1" -eq 0 ]; then echo "ok $count - $2"; else echo "not ok $count - $2"; failed=1; fi
}

builds() { # name command...
  name=$1
  shift
  "$@" $warnings nxmem_minimal.c >log 2>&1
  status=$?
  [ $status -eq 0 ] || sed 's/^/# /' log
  verdict $status "$name"
}

elf_exports() { nm -D --defined-only "$1" | awk '{print $3}' | sort | tr '\n' ' ' | sed 's/ $//'; }
dll_exports() {
  x86_64-w64-mingw32-objdump -p "$1" | awk '/\[Ordinal\/Name Pointer\]/{on=1;next} on&&NF==0{on=0} on{print $NF}' |
    sort | tr '\n' ' ' | sed 's/ $//'
}

exports() { # name found
  [ "$2" = "$wanted" ] || echo "# exports: $2"
  [ "$2" = "$wanted" ]
  verdict $? "$1"
}

echo "1..9"
builds "gcc, C11" gcc -std=c11 -O2 -fPIC -shared -o gcc.so
builds "gcc, C17" gcc -std=c17 -O0 -fPIC -shared -o gcc17.so
builds "clang, C11" clang -std=c11 -O2 -fPIC -shared -o clang.so
builds "clang, C17" clang -std=c17 -O0 -fPIC -shared -o clang17.so
builds "mingw-w64, C11" x86_64-w64-mingw32-gcc -std=c11 -O2 -shared -o mingw.dll
exports "gcc: without hidden visibility just the three exports" "$(elf_exports gcc.so)"
exports "clang: just the three exports" "$(elf_exports clang.so)"
exports "mingw-w64: just the three exports" "$(dll_exports mingw.dll)"
[ "$(grep -c '#include "' nxmem_minimal.c)" -eq 1 ] &&
  ! grep -Eq '#include <(unistd|sys/|pthread|windows)' nxmem_minimal.c
verdict $? "one header of ours, none of an operating system's"
exit $failed
