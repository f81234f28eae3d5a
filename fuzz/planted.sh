#!/usr/bin/env bash
# Would the fuzz targets notice? Plants one fault at a time into a copy of the product and times libFuzzer until an
# oracle fires.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
apply=$root/fuzz/planted/apply.py

usage() {
  cat <<END
usage: fuzz/planted.sh [--budget SECONDS] [--seed N] [--tries N] [--seeds-only] [--target TARGET] [FAULT...]

Each fault of fuzz/planted/faults*.ini (or those named) is run with the seeds and earlier finds, and from nothing but the
dictionary. Before them each target runs on the unchanged copy, and must stay silent.
--budget      seconds each run may take (default 20)
--seed        libFuzzer's seed (default 1)
--tries       runs with the seeds, each with a seed of its own; the time is their median (default 1)
--seeds-only  none from nothing
--target      the faults of this target only
A canary in the fault's place says how far a run came: "reached" the place, "triggered" the fault there, "detected" it;
"-" where a fault has none.
Last line: "planted: S/N detected with seeds, B/N from nothing, within SECONDS s".
Exit code: 0 all detected with seeds, 1 one was not or an alarm was false, 2 usage, 3 could not build or run.
END
}

die() { echo "fuzz/planted.sh: $1" >&2; exit "${2:-3}"; }

budget=20
seed=1
tries=1
seeds_only=0
only_target=""
chosen=()
while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --budget) budget=${2-}; shift ;;
    --seed) seed=${2-}; shift ;;
    --tries) tries=${2-}; shift ;;
    --target) only_target=${2-}; shift ;;
    --seeds-only) seeds_only=1 ;;
    -*) usage >&2; exit 2 ;;
    *) chosen+=("$1") ;;
  esac
  shift || die "an option lacks its value" 2
done
[[ $budget =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ && $tries =~ ^[1-9][0-9]*$ ]] ||
  die "--budget, --seed and --tries take numbers" 2

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

# What the canary saw in this run: reached and triggered, as far as it came.
how_far() {
  local reached triggered
  read -r reached triggered < <(od -An -v -t u8 hunt/canary)
  far="-"
  [[ $reached == 0 ]] || far=reached
  [[ $triggered == 0 ]] || far=triggered
}

# Sets `took` (seconds, or empty where the budget ran out), `seen` (what fired) and `far`.
hunt() {
  local target=$1 with=$2 begin
  shift 2
  rm -rf hunt && mkdir -p hunt/corpus
  head -c 16 /dev/zero >hunt/canary
  took="" seen=""
  begin=$EPOCHREALTIME
  if ! NXMEM_FUZZ_CANARY=$PWD/hunt/canary build/libfuzzer/bin/fuzz_"$target" -seed="$with" -max_total_time="$budget" \
    -entropic=0 -reduce_inputs=0 -max_len=528 -timeout=10 -artifact_prefix=hunt/ \
    -dict="fuzz/dict/$target.dict" hunt/corpus "$@" >hunt.log 2>&1; then
    took=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}')
    seen=$(grep -aohE "$alarms" hunt.log |
      head -n 1 | sed 's/SUMMARY: //; s/ORACLE //' | cut -c 1-60 || true)
  fi
  how_far
}

# The folders that a campaign begins with.
known_inputs() {
  local folder
  for folder in "fuzz/seeds/$1" "fuzz/found/$1" "fuzz/corpus/$1"; do [[ ! -d $folder ]] || echo "$folder"; done
}

# The median of several runs; one that found nothing counts as longer than any.
hunt_often() {
  local target=$1 try times=() what="" come="-"
  mapfile -t known < <(known_inputs "$target")
  for ((try = 0; try < tries; try++)); do
    hunt "$target" $((seed + try)) "${known[@]}"
    times+=("${took:-9999999}")
    [[ -z $seen ]] || what=$seen
    [[ $far == "-" || $come == triggered ]] || come=$far
  done
  took=$(printf '%s\n' "${times[@]}" | sort -n | sed -n "$(((tries + 1) / 2))p")
  [[ $took != 9999999 ]] || took=""
  seen=$what far=$come
}

faults=$("$apply" list)
for name in "${chosen[@]}"; do grep -q "^$name " <<<"$faults" || die "no fault '$name'" 2; done
wanted() {
  [[ -z $only_target || $2 == "$only_target" ]] || return 1
  ((${#chosen[@]} == 0)) || [[ " ${chosen[*]} " == *" $1 "* ]]
}

total=0 with_seeds=0 from_nothing=0 false_alarms=0
row() { printf '%-38s %-10s %-10s %8s %8s  %s\n' "$@"; }
row "fault" "target" "canary" "seeds, s" "bare, s" "seen by (with seeds, else bare)"

mapfile -t targets < <(while read -r name target file; do wanted "$name" "$target" && echo "$target"; done <<<"$faults" | sort -u)
for target in "${targets[@]}"; do
  build "$target" "the unchanged product"
  hunt_often "$target"
  [[ -z $took ]] || false_alarms=$((false_alarms + 1))
  row "none (must stay silent)" "$target" "" "${took:--}" "" "$seen"
done

while read -r name target file; do
  wanted "$name" "$target" || continue
  total=$((total + 1))
  cp "$file" before
  "$apply" apply "$name" "$tree" || die "the fault could not be planted"
  build "$target" "$name"
  hunt_often "$target"
  seeds_took=$took what=$seen come=$far
  [[ -z $took ]] || { with_seeds=$((with_seeds + 1)) come=detected; }
  took="" seen=""
  ((seeds_only == 1)) || hunt "$target" "$seed"
  [[ -z $took ]] || from_nothing=$((from_nothing + 1))
  row "$name" "$target" "$come" "${seeds_took:--}" "${took:--}" "${what:-$seen}"
  cp before "$file"
done <<<"$faults"

echo "planted: $with_seeds/$total detected with seeds, $from_nothing/$total from nothing, within $budget s"
((with_seeds == total && false_alarms == 0))
