#!/usr/bin/env bash
# check.sh [FOLDER]: every model of the folder (this one) verified exhaustively, every broken variant refuted by the assertion that the model's
# head names for it. Prints TAP with the state counts. Needs spin and gcc.
set -u
here=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")}" && pwd) || exit 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

row=0
failed=0
report() { # ok|not_ok TEXT
  row=$((row + 1))
  if [ "$1" = ok ]; then printf 'ok %d - %s\n' "$row" "$2"; else printf 'not ok %d - %s\n' "$row" "$2"; failed=1; fi
}

# explore MODEL VARIANT: sets errors and states, errors=none where it could not be run, and broken: where:what of the assertion that failed.
explore() {
  local folder=$work/$1-${2:-right} line
  mkdir -p "$folder"
  errors=none states=0 broken=
  (cd "$folder" && spin ${2:+-D"$2"} -a "$here/$1.pml" && gcc -O1 -w -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m100000) >"$folder/log" 2>&1 || return
  grep -q 'max search depth too small' "$folder/log" && return
  errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$folder/log")
  states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$folder/log")
  grep -q 'assertion violated' "$folder/log" || return
  line=$(cd "$folder" && spin ${2:+-D"$2"} -T -k "$1.pml.trail" "$here/$1.pml" | sed -n 's/.*\.pml:\([0-9]*\), Error: assertion violated.*/\1/p')
  broken=$(assertion_at "$1" "${line:-0}")
}

# assertion_at MODEL LINE: the process or inline that the line stands in, and the assertion in it.
assertion_at() {
  awk -v line="$2" '/^(active )?(\[[^]]*\] )?(proctype|inline) / { name = $0; sub(/.*(proctype|inline) /, "", name); sub(/\(.*/, "", name) }
    /^init/ { name = "init" }
    NR == line { at = index($0, "assert("); text = substr($0, at + 7); depth = 1
      for (i = 1; depth && i <= length(text); i++) { c = substr(text, i, 1); depth += (c == "(") - (c == ")") }
      if (at) print name ": " substr(text, 1, i - 2) }' "$here/$1.pml"
}

# The head's rows "VARIANT: WHERE: ASSERTION", and what the model's text asks the preprocessor about.
rows_of() { sed -n '/Broken on purpose/,/\*\//s/^ \*   \([A-Z][A-Z_]*: .*\)$/\1/p' "$here/$1.pml"; }
variants_of() { rows_of "$1" | sed 's/:.*//'; }
named_for() { rows_of "$1" | sed -n "s/^$2: //p"; }
asked_for() { sed -n 's/^#\(ifdef\|ifndef\|if\|elif\) *//p' "$here/$1.pml" | grep -o '[A-Z][A-Z_]*' | sort -u; }

models=$(cd "$here" && ls ./*.pml | sed 's|^\./||; s|\.pml$||')
total=0
for model in $models; do total=$((total + 2 + $(variants_of "$model" | wc -l))); done
printf '1..%d\n' "$total"
for model in $models; do
  unlike=$(comm -3 <(asked_for "$model") <(variants_of "$model" | sort) | tr -d '\t' | tr '\n' ' ')
  if [ -z "$unlike" ]; then report ok "$model: its variants are those it lists"; else report not_ok "$model: listed or asked for, not both, or twice: $unlike"; fi
  explore "$model" ""
  if [ "$errors" = 0 ]; then report ok "$model: holds in all $states states"; else report not_ok "$model: errors: $errors"; fi
  for variant in $(variants_of "$model"); do
    explore "$model" "$variant"
    named=$(named_for "$model" "$variant")
    if [ -n "$broken" ] && [ "$broken" = "$named" ]; then
      report ok "$model: $variant refuted: $broken"
    elif [ -n "$broken" ]; then
      report not_ok "$model: $variant breaks $broken, not $named"
    else
      report not_ok "$model: $variant breaks no assertion (errors: $errors)"
    fi
  done
done
exit "$failed"
