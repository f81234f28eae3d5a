#!/usr/bin/env bash
# check.sh: every model verified exhaustively, every broken variant refuted. Prints TAP with the state counts. Needs spin and gcc.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

row=0
failed=0
report() { # ok|not_ok TEXT
  row=$((row + 1))
  if [ "$1" = ok ]; then printf 'ok %d - %s\n' "$row" "$2"; else printf 'not ok %d - %s\n' "$row" "$2"; failed=1; fi
}

# explore MODEL VARIANT: sets errors, states and broken (the assertion that failed), or errors=none where it could not be run.
explore() {
  local folder=$work/$1-${2:-right}
  mkdir -p "$folder"
  errors=none states=0 broken=
  (cd "$folder" && spin ${2:+-D"$2"} -a "$here/$1.pml" && gcc -O1 -w -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m100000) >"$folder/log" 2>&1 || return
  grep -q 'max search depth too small' "$folder/log" && return
  errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$folder/log")
  broken=$(sed -n 's/.*assertion violated \(.*\) (at depth.*/\1/p' "$folder/log")
  states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$folder/log")
}

variants_of() { sed -n '/Broken on purpose/,/\*\//p' "$here/$1.pml" | grep -o '[A-Z][A-Z_]\{4,\}'; }

models=$(cd "$here" && ls ./*.pml | sed 's|^\./||; s|\.pml$||')
total=0
for model in $models; do total=$((total + 1 + $(variants_of "$model" | wc -l))); done
printf '1..%d\n' "$total"
for model in $models; do
  explore "$model" ""
  if [ "$errors" = 0 ]; then report ok "$model: holds in all $states states"; else report not_ok "$model: errors: $errors"; fi
  for variant in $(variants_of "$model"); do
    explore "$model" "$variant"
    if [ -n "$broken" ]; then
      report ok "$model: $variant refuted: $broken"
    else
      report not_ok "$model: $variant breaks no assertion (errors: $errors)"
    fi
  done
done
exit "$failed"
