#!/usr/bin/env bash
# The core with its contracts compiled in, and the target `core` around it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<END
usage: fuzz/contract/build.sh --root ROOT --out DIR [--fuzzer | --quick] [--only abi/src/X.c --base BASEDIR] [--jobs N]

Builds DIR/contract_replay, which runs the target \`core\` on given inputs and some made from them; see its --help.
--root    the project whose core is translated
--fuzzer  build DIR/contract_fuzz instead: the same target under libFuzzer
--quick   compile the core without optimising it: for a few inputs
--only    translate and compile this one file of ROOT; everything else is taken from BASEDIR, an earlier whole build
          of the same headers
--jobs    compilers at a time (default 2)
Exit code: 0 built, 2 usage, 3 could not be built.
END
}
die() { echo "build.sh: $1" >&2; exit "${2:-3}"; }

root="" out="" only="" base="" jobs=2 fuzzer=0 quick=0
while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --fuzzer) fuzzer=1; shift; continue ;;
    --quick) quick=1; shift; continue ;;
    --root) root=${2-} ;;
    --out) out=${2-} ;;
    --only) only=${2-} ;;
    --base) base=${2-} ;;
    --jobs) jobs=${2-} ;;
    *) usage >&2; die "unknown option $1" 2 ;;
  esac
  shift 2 || die "an option lacks its value" 2
done
[[ -n $root && -n $out ]] || { usage >&2; exit 2; }
[[ -z $only || -d $base ]] || die "--only needs the folder of a whole build: --base" 2
[[ -d $root/abi/src ]] || die "no project in $root" 2
command -v clang >/dev/null || die "clang is not installed (Debian: clang libclang-rt-14-dev)"
mkdir -p "$out"

sanitize=-fsanitize=address optimise=-O1
((quick)) && optimise=-O0
program=contract_replay
if ((fuzzer)); then
  sanitize="-fsanitize=address,fuzzer-no-link -fno-sanitize-coverage=trace-cmp"
  program=contract_fuzz optimise=-O2
fi
includes=(-I"$root/abi/include" -I"$root/fuzz/support" -I"$root/fuzz/oracle" -I"$root/fuzz/targets" -I"$here")
flags=(-std=c11 -g1 -Wall -Wextra -Wpedantic -Werror "${includes[@]}")

# What a translated file is made from, apart from itself.
surroundings() {
  cat "$root"/abi/include/*.h "$root"/abi/include/nxmem/*.h "$root"/abi/src/*.h "$here"/*.{py,sh,h,txt} | sha256sum
}

# translated SOURCE OPTIMISATION. What was made from the same before is kept. Translated code is a machine's: of
# warnings only those that would mean a wrong translation.
translated() {
  local name made
  name=$(basename "$1" .c)
  made="$around $2 $sanitize $(sha256sum <"$root/$1")"
  [[ ! -f $out/core_$name.o || $(cat "$out/$name.made" 2>/dev/null) != "$made" ]] || return 0
  rm -f "$out/$name.made"
  "$here/translate.sh" --root "$root" --source "$1" --out "$out/$name.e.c" --warnings "$out/$name.warnings" &&
    clang -Wno-everything -Werror=int-conversion -Werror=incompatible-pointer-types "$2" -g1 $sanitize \
      -std=gnu11 -I"$here" -include "$here/translated.h" -c "$out/$name.e.c" -o "$out/core_$name.o" &&
    echo "$made" >"$out/$name.made"
}
around=$(surroundings)
# plain SOURCE NAME [FLAGS...]: everything around the core.
plain() { clang "${flags[@]}" -O1 "${@:3}" -c "$1" -o "$out/$2.o"; }

one() { # one KIND SOURCE
  local name
  name=$(basename "$2" .c)
  case $1 in
    core) translated "$2" "$optimise" ;;
    target) plain "$root/$2" "target_$name" $sanitize -DNXMEM_CONTRACT -include "$out/wrapped.h" ;;
    support) plain "$2" "around_$name" -fsanitize=address -DNXMEM_CONTRACT ;;
    runtime) plain "$2" "around_$name" -O2 -DNXMEM_CONTRACT ;; # what asks the sanitizer is not under it
  esac
}

sources() {
  (cd "$root" && printf 'core %s\n' abi/src/*.c && printf 'target %s\n' fuzz/targets/core.c fuzz/targets/core/*.c)
  printf 'support %s\n' "$root/fuzz/support/harness.c" "$root/fuzz/oracle/reference_text.c"
  printf 'runtime %s\n' "$here/runtime.c" "$here/numbers.c"
  if ((fuzzer)); then
    printf 'support %s\n' "$root/fuzz/mains/libfuzzer_main.c"
  else
    printf 'support %s\n' "$here/mutate.c" "$here/contract_replay.c"
  fi
}

link() { clang -fsanitize=address $( ((fuzzer)) && echo -fsanitize=fuzzer) "$@" -lgmp -o "$out/$program"; }

if [[ -n $only ]]; then
  translated "$only" -O0 || die "$only could not be built"
  changed=core_$(basename "$only" .c).o
  objects=("$out/$changed")
  for object in "$base"/*.o; do [[ $(basename "$object") == "$changed" ]] || objects+=("$object"); done
  link "${objects[@]}" || die "the program could not be linked"
  exit 0
fi

find "$out" -maxdepth 1 -name '*.o' ! -name 'core_*' -delete
for object in "$out"/core_*.o; do # of a file that is no more
  name=${object#"$out"/core_}
  [[ -f $root/abi/src/${name%.o}.c ]] || rm -f "$object"
done
python3 "$here/public.py" --wrapped "$root" "$out/wrapped.h" || die "the headers could not be read"
export -f one translated plain
export here root out sanitize optimise around
export flags_text="${flags[*]}"
sources | xargs -P "$jobs" -L 1 bash -c 'set -e; flags=($flags_text); one "$@"' one || die "the core could not be built"
link "$out"/*.o || die "the program could not be linked"
