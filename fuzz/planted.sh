#!/usr/bin/env bash
# Would the fuzz targets notice? Plants one fault at a time into a copy of the product and times libFuzzer until an
# oracle fires.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
apply=$root/fuzz/planted/apply.py

usage() {
  cat <<END
usage: fuzz/planted.sh [--budget SECONDS] [--seed N] [FAULT...]

Each fault of fuzz/planted/faults.ini (or those named) is run twice: with the seeds and earlier finds, and from nothing
but the dictionary.
Before them each target runs on the unchanged copy, and must stay silent.
--budget  seconds each run may take (default 20)
--seed    libFuzzer's seed (default 1)
Last line: "planted: S/N detected with seeds, B/N from nothing, within SECONDS s".
Exit code: 0 all detected with seeds, 1 one was not or an alarm was false, 2 usage, 3 could not build or run.
END
}

die() { echo "fuzz/planted.sh: $1" >&2; exit "${2:-3}"; }

budget=20
seed=1
chosen=()
while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --budget) budget=${2-}; shift ;;
    --seed) seed=${2-}; shift ;;
    -*) usage >&2; exit 2 ;;
    *) chosen+=("$1") ;;
  esac
  shift || die "an option lacks its value" 2
done
[[ $budget =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]] || die "--budget and --seed take numbers" 2

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$tree" -xf -
# A planted fault may leave a variable unused; that is not what is being tried.
sed -i 's/ -Werror)/)/' "$tree/CMakeLists.txt"
cd "$tree"
cmake --preset libfuzzer >configure.log 2>&1 || { cat configure.log >&2; die "the copy could not be configured"; }

build() {
  cmake --build build/libfuzzer --target "fuzz_$1" -j "$(nproc)" >build.log 2>&1 && return
  cat build.log >&2
  die "$2 does not build"
}

alarms='ORACLE .*|runtime error: .*|SUMMARY: AddressSanitizer: [a-zA-Z-]*|ERROR: libFuzzer: .*'

# Sets `took` (seconds, or empty where the budget ran out) and `seen` (what fired).
hunt() {
  local target=$1 begin
  shift
  rm -rf hunt && mkdir -p hunt/corpus
  took="" seen=""
  begin=$EPOCHREALTIME
  if ! build/libfuzzer/bin/fuzz_"$target" -seed="$seed" -max_total_time="$budget" -timeout=10 -artifact_prefix=hunt/ \
    -dict="fuzz/dict/$target.dict" hunt/corpus "$@" >hunt.log 2>&1; then
    took=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}')
    seen=$(grep -aohE "$alarms" hunt.log |
      head -n 1 | sed 's/SUMMARY: //; s/ORACLE //' | cut -c 1-60 || true)
  fi
}

faults=$("$apply" list)
for name in "${chosen[@]}"; do grep -q "^$name " <<<"$faults" || die "no fault '$name'" 2; done
wanted() { ((${#chosen[@]} == 0)) || [[ " ${chosen[*]} " == *" $1 "* ]]; }

total=0 with_seeds=0 from_nothing=0 false_alarms=0
row() { printf '%-40s %-10s %9s %9s  %s\n' "$@"; }
row "fault" "target" "seeds, s" "bare, s" "seen by (with seeds, else bare)"

mapfile -t targets < <(awk '{print $2}' <<<"$faults" | sort -u)
for target in "${targets[@]}"; do
  build "$target" "the unchanged product"
  hunt "$target" "fuzz/seeds/$target" "fuzz/found/$target"
  [[ -z $took ]] || false_alarms=$((false_alarms + 1))
  row "none (must stay silent)" "$target" "${took:--}" "" "$seen"
done

while read -r name target file; do
  wanted "$name" || continue
  total=$((total + 1))
  cp "$file" before
  "$apply" apply "$name" "$tree" || die "the fault could not be planted"
  build "$target" "$name"
  hunt "$target" "fuzz/seeds/$target" "fuzz/found/$target"
  seeds_took=$took what=$seen
  [[ -z $took ]] || with_seeds=$((with_seeds + 1))
  hunt "$target"
  [[ -z $took ]] || from_nothing=$((from_nothing + 1))
  row "$name" "$target" "${seeds_took:--}" "${took:--}" "${what:-$seen}"
  cp before "$file"
done <<<"$faults"

echo "planted: $with_seeds/$total detected with seeds, $from_nothing/$total from nothing, within $budget s"
((with_seeds == total && false_alarms == 0))
