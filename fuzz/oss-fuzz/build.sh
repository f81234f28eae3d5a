#!/bin/bash -eu
# Builds every fuzz target the way OSS-Fuzz and ClusterFuzzLite ask for: compilers, flags and engine come from the
# environment, the sources are in $SRC/nxmem, and what the programs need where they run goes to $OUT.
set -o pipefail

root=$SRC/nxmem

if [[ $ARCHITECTURE == i386 ]]; then
  echo "oss-fuzz/build.sh: found ARCHITECTURE=i386, needed a 64-bit one: so is the contract between host and plugin" >&2
  exit 1
fi

# What MemorySanitizer would be wrong about: the dynamic loader's answers, which it does not see written, and libraries of
# the distribution (JSON, ELF), which are built without it.
memory_is_wrong=" lifecycle deferred load owners strings elf policy "

# As long as our own campaigns let an input be.
most_bytes() {
  PYTHONPATH=$root/fuzz python3 -c 'import sys; from campaign.places import most_bytes; print(most_bytes(sys.argv[1]))' "$1"
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
  (cd "$WORK/pack" && python3 -m zipfile -c "$OUT/fuzz_${target}_seed_corpus.zip" ./*)
}

cmake -S "$root" -B "$WORK/nxmem" -G Ninja -DNXMEM_FUZZ_ENGINE=external "-DNXMEM_FUZZ_LIBRARY=$LIB_FUZZING_ENGINE"
cmake --build "$WORK/nxmem" --target fuzz_all

for source in "$root"/fuzz/targets/*.c; do
  target=$(basename "$source" .c)
  if [[ $SANITIZER == memory && $memory_is_wrong == *" $target "* ]]; then continue; fi
  cp "$WORK/nxmem/bin/fuzz_$target" "$OUT/"
  cp "$root/fuzz/dict/$target.dict" "$OUT/fuzz_$target.dict"
  bytes=$(most_bytes "$target")
  printf '[libfuzzer]\nmax_len = %s\n' "$bytes" >"$OUT/fuzz_$target.options"
  pack "$target"
done
# Targets that load a plugin find this one beside themselves.
cp "$WORK/nxmem/bin/libnxmem_fuzz_plugin.so" "$OUT/"
