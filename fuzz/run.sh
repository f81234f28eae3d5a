#!/usr/bin/env bash
# One fuzzing campaign: builds the engine's preset, runs the target for a while, says how it goes, counts findings.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
targets=$(cd "$root/fuzz/targets" && printf '%s ' *.c | sed 's/\.c / /g')

usage() {
  cat <<END
usage: fuzz/run.sh TARGET SECONDS [--engine libfuzzer|afl|contract] [--jobs N]

TARGET    one of: $targets
SECONDS   how long the campaign runs, the build not counted
--engine  libfuzzer (default; with AddressSanitizer and UndefinedBehaviorSanitizer), afl (AFL++, persistent mode), or,
          for the target core alone, contract (libFuzzer and AddressSanitizer around the core with its proved
          contracts compiled in: each clause that is false is a finding)
--jobs    fuzzing processes side by side (default 1); they share what they find

The corpus grows in build/fuzz/ENGINE/TARGET/corpus, inputs that fail land in .../findings, the engine's own words in
.../log.
The last line is "fuzz TARGET: N execs, R/s, C edges, X findings".
Exit code: 0 no finding, 1 findings, 2 usage, 3 could not build or run.
END
}

die() { echo "fuzz/run.sh: $1" >&2; exit "${2:-3}"; }
is_count() { [[ $1 =~ ^[1-9][0-9]{0,7}$ ]]; }

# ---- Arguments -------------------------------------------------------------------------------------------------------

engine=libfuzzer
jobs=1
words=()
while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --engine) engine=${2-}; shift ;;
    --jobs) jobs=${2-}; shift ;;
    -*) usage >&2; die "unknown option $1" 2 ;;
    *) words+=("$1") ;;
  esac
  shift || die "an option lacks its value" 2
done
((${#words[@]} == 2)) || { usage >&2; exit 2; }
target=${words[0]} seconds=${words[1]}
[[ " $targets" == *" $target "* ]] || die "no target '$target'; there are: $targets" 2
[[ $engine == libfuzzer || $engine == afl || $engine == contract ]] ||
  die "no engine '$engine'; there are: libfuzzer afl contract" 2
[[ $engine != contract || $target == core ]] ||
  die "the engine contract runs the target core and no other: only the core has contracts" 2
is_count "$seconds" || die "'$seconds' is no number of seconds" 2
is_count "$jobs" || die "'$jobs' is no number of jobs" 2

# ---- Build -----------------------------------------------------------------------------------------------------------

work=$root/build/fuzz/$engine/$target
binary=$root/build/$engine/bin/fuzz_$target
[[ $engine != contract ]] || binary=$root/build/contract/contract_fuzz
inputs=("$root/fuzz/seeds/$target" "$root/fuzz/found/$target")
[[ ! -d $root/fuzz/corpus/$target ]] || inputs+=("$root/fuzz/corpus/$target")
# The translated contracts lose a few bytes of big numbers a call; the core itself allocates nothing.
[[ $engine != contract ]] || export ASAN_OPTIONS=detect_leaks=0
mkdir -p "$work/corpus" "$work/findings" "$work/log"
find "$work/log" -mindepth 1 -delete

# AFL++'s compiler asks for no settings of the machine; its fuzzer is told not to ask either (containers cannot change
# them).
export AFL_QUIET=1 AFL_NO_UI=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1

build() {
  cd "$root"
  if [[ $engine == contract ]]; then
    fuzz/contract/build.sh --root "$root" --out build/contract --fuzzer --jobs "$(nproc)"
    return
  fi
  cmake --preset "$engine" && cmake --build "build/$engine" --target "fuzz_$target" -j "$(nproc)"
}
echo "fuzz $target: building build/$engine"
if ! (build >"$work/log/build" 2>&1); then
  tail -n 30 "$work/log/build" >&2
  die "the build failed; all of it: $work/log/build"
fi

# The harness counts the inputs it runs, whatever drives it: one counter a job.
new_counter() { head -c 8 /dev/zero >"$work/log/counter.$1"; }
count_execs() { cat "$work"/log/counter.* | od -An -v -t u8 -w8 | awk '{n += $1} END {print n + 0}'; }
count_findings() { find "$work/findings" -type f -newer "$work/log/build" ! -name 'slow-unit-*' | wc -l; }

# ---- libFuzzer -------------------------------------------------------------------------------------------------------

# A job that found something starts again: most findings stop only the input they were found with. After three it would
# find little else. libFuzzer exits with 72 where it was interrupted.
# Longer inputs find no more and take longer: texts end behind every limit, lives have some twenty steps.
most_bytes() {
  case $target in
    lifecycle | deferred | load) echo 400 ;;
    table | status) echo 340 ;;
    *) echo 1040 ;;
  esac
}
libfuzzer_job() {
  local job=$1 until=$2 found=0 left code
  while ((found < 3)); do
    left=$((until - $(date +%s)))
    ((left > 0)) || return 0
    code=0
    NXMEM_FUZZ_COUNTER=$work/log/counter.$job UBSAN_OPTIONS=print_stacktrace=1 \
      "$binary" -max_total_time="$left" -entropic=0 -print_funcs=0 -max_len="$(most_bytes)" -timeout=10 -rss_limit_mb=2048 -reload=1 -print_final_stats=1 \
      -dict="$root/fuzz/dict/$target.dict" -artifact_prefix="$work/findings/" \
      "$work/corpus" "${inputs[@]}" >>"$work/log/job.$job" 2>&1 || code=$?
    ((code != 0 && code != 72)) || return 0
    found=$((found + 1))
  done
}
libfuzzer_start() {
  local job
  for ((job = 0; job < jobs; job++)); do
    new_counter "$job"
    libfuzzer_job "$job" $(($(date +%s) + seconds)) &
    pids+=($!)
  done
}
libfuzzer_edges() {
  grep -aho 'cov: [0-9]*' "$work"/log/job.* 2>/dev/null | awk '$2 > m {m = $2} END {print m + 0}' || true
}
libfuzzer_findings() { count_findings; }
libfuzzer_finish() { :; }

# ---- The contracts, under libFuzzer ----------------------------------------------------------------------------------

contract_start() { libfuzzer_start; }
contract_edges() { libfuzzer_edges; }
contract_findings() { libfuzzer_findings; }
contract_finish() { libfuzzer_finish; }

# ---- AFL++ -----------------------------------------------------------------------------------------------------------

keep() { cp "$1" "$2-$(sha1sum <"$1" | cut -c 1-40)"; }
goes_through() { timeout 10 "$binary" <"$1"; } >/dev/null 2>&1

# AFL++ wants seeds that go through; one that does not is a finding by itself.
afl_stage() {
  local input
  rm -rf "$work/in" "$work/out"
  mkdir -p "$work/in" "$work/out"
  find "${inputs[@]}" "$work/corpus" -type f ! -name '.*' -size +0 \
    -exec cp -t "$work/in" {} +
  for input in "$work/in"/*; do
    goes_through "$input" && continue
    keep "$input" "$work/findings/crash"
    rm "$input"
  done
}
afl_start() {
  local job role
  afl_stage
  export AFL_CUSTOM_MUTATOR_LIBRARY=$root/build/afl/bin/fuzz_mutator_$target.so
  for ((job = 0; job < jobs; job++)); do
    role=(-S "job$job")
    ((job == 0)) && role=(-M job0)
    new_counter "$job"
    NXMEM_FUZZ_COUNTER=$work/log/counter.$job timeout -s INT $((seconds + 20)) \
      afl-fuzz "${role[@]}" -i "$work/in" -o "$work/out" -x "$root/fuzz/dict/$target.dict" \
      -V "$seconds" -t 2000 -m none -- "$binary" >"$work/log/job.$job" 2>&1 </dev/null &
    pids+=($!)
  done
}
# AFL++ brings its statistics up to date once a minute and at the end.
afl_edges() {
  cat "$work"/out/job*/fuzzer_stats 2>/dev/null | awk '$1 == "edges_found" && $3 > m {m = $3} END {print m + 0}'
}
afl_crashes() { find "$work/out" -path '*/crashes/id*' -type f 2>/dev/null; }
afl_findings() {
  if [[ $finished == 1 ]]; then count_findings; else afl_crashes | wc -l; fi # until the end, equal ones count each
}
# Inputs keep their content's hash as a name, as libFuzzer's do. A hang counts only where it hangs again, alone and for
# longer.
afl_finish() {
  local input
  while IFS= read -r input; do keep "$input" "$work/findings/crash"; done < <(afl_crashes)
  while IFS= read -r input; do
    goes_through "$input" || keep "$input" "$work/findings/timeout"
  done < <(find "$work/out" -path '*/hangs/id*' -type f)
  while IFS= read -r input; do
    cp "$input" "$work/corpus/$(sha1sum <"$input" | cut -c 1-40)"
  done < <(find "$work/out" -path '*/queue/id*' -type f)
}

# ---- The campaign ----------------------------------------------------------------------------------------------------

# Each job is a process group of its own, so that an interrupted campaign ends all of it and still sums up.
set -m
pids=()
finished=0
stop() { for pid in "${pids[@]}"; do kill -INT -- "-$pid" 2>/dev/null || true; done; }
trap stop INT TERM

running() { local pid; for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null && return 0; done; return 1; }
rate() { echo $(($1 / ($2 > 0 ? $2 : 1))); }
progress() {
  local spent=$(($(date +%s) - began)) execs
  execs=$(count_execs)
  printf '[%4d s] %s execs, %s/s, %s edges, %s findings\n' "$spent" "$execs" "$(rate "$execs" "$spent")" \
    "$("${engine}_edges")" "$("${engine}_findings")"
}

began=$(date +%s)
"${engine}_start"
while running; do
  for _ in 1 2 3; do running && sleep 1; done
  running && progress
done || true
wait "${pids[@]}" 2>/dev/null || true
spent=$(($(date +%s) - began))
finished=1
"${engine}_finish"

execs=$(count_execs)
findings=$("${engine}_findings")
((execs > 0)) || { tail -n 20 "$work"/log/job.* >&2; die "nothing ran; the engine's words are in $work/log"; }
grep -ahE '^(ORACLE|DRIVER)' "$work"/log/job.* 2>/dev/null | sort | uniq -c | head -n 10 || true
((findings == 0)) || echo "findings: $work/findings (run one again: $binary FILE, or build/asan/bin/fuzz_$target FILE)"
echo "fuzz $target: $execs execs, $(rate "$execs" "$spent")/s, $("${engine}_edges") edges, $findings findings"
((findings == 0))
