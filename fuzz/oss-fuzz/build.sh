#!/usr/bin/env bash
# Builds every fuzz target the way OSS-Fuzz and ClusterFuzzLite ask for: compilers, flags and engine come from the
# environment, whatever the programs need at run time goes to $OUT. Run from anywhere; the sources are where this file is.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${CC:?}" "${CXX:?}" "${CFLAGS?}" "${CXXFLAGS?}" "${LIB_FUZZING_ENGINE:?}" "${OUT:?}" "${WORK:?}"
sanitizer=${SANITIZER:-address}

if [[ ${ARCHITECTURE:-x86_64} == i386 ]]; then
  echo "oss-fuzz/build.sh: found ARCHITECTURE=i386, needed a 64-bit one: so is the contract between host and plugin" >&2
  exit 1
fi

# Longer inputs find no more: texts end behind every limit, lives have some twenty steps.
most_bytes() {
  case $1 in
    lifecycle | deferred | load) echo 400 ;;
    table | status) echo 340 ;;
    *) echo 1040 ;;
  esac
}

# Seeds, what campaigns found, and what once failed, as one archive; a name says where it comes from.
pack() {
  local target=$1 folder input
  rm -rf "$WORK/pack"
  mkdir -p "$WORK/pack"
  for folder in seeds corpus found; do
    for input in "$root/fuzz/$folder/$target"/*; do
      if [[ -f $input ]]; then cp "$input" "$WORK/pack/$folder-${input##*/}"; fi
    done
  done
  python3 -m zipfile -c "$OUT/fuzz_${target}_seed_corpus.zip" "$WORK"/pack/*
}

cmake -S "$root" -B "$WORK/nxmem" -G Ninja -DNXMEM_FUZZ_ENGINE=external "-DNXMEM_FUZZ_LIBRARY=$LIB_FUZZING_ENGINE"
cmake --build "$WORK/nxmem" --target fuzz_all

for source in "$root"/fuzz/targets/*.c; do
  target=$(basename "$source" .c)
  # Its JSON library comes from the distribution, without MemorySanitizer: every byte of it would be a false finding.
  if [[ $target == strings && $sanitizer == memory ]]; then continue; fi
  cp "$WORK/nxmem/bin/fuzz_$target" "$OUT/"
  cp "$root/fuzz/dict/$target.dict" "$OUT/fuzz_$target.dict"
  printf '[libfuzzer]\nmax_len = %s\n' "$(most_bytes "$target")" >"$OUT/fuzz_$target.options"
  pack "$target"
done
# Targets that load a plugin find this one beside themselves.
cp "$WORK/nxmem/bin/libnxmem_fuzz_plugin.so" "$OUT/"
