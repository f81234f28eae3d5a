#!/usr/bin/env bash
# One source file of the core with its contracts as C: each function F beside a __gen_e_acsl_F that checks its contract.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<END
usage: fuzz/contract/translate.sh --root ROOT --source abi/src/X.c --out X.e.c [--warnings FILE]

Translates the contracts of one source file in the quiet world, with Frama-C's E-ACSL. Calls between functions of the
core go through the wrappers as well.
--root      the project; its headers are read
--source    relative to ROOT
--warnings  where the translator's warnings go, one a line: the function, then the text (default: they are not kept)
Exit code: 0 translated, 2 usage, 3 could not be translated.
END
}
die() { echo "translate.sh: $1" >&2; exit "${2:-3}"; }

root="" source="" out="" warnings=/dev/null
while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --root) root=${2-} ;;
    --source) source=${2-} ;;
    --out) out=${2-} ;;
    --warnings) warnings=${2-} ;;
    *) usage >&2; die "unknown option $1" 2 ;;
  esac
  shift 2 || die "an option lacks its value" 2
done
[[ -n $root && -n $source && -n $out ]] || { usage >&2; exit 2; }
[[ -f $root/$source ]] || die "no file $root/$source" 2
command -v frama-c >/dev/null || die "frama-c is not installed (Debian: frama-c-base)"

# The name of the copy is the file's own: the translator's messages and the violated clauses name it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/$(basename "$source")
functions=$(python3 "$here/prepare.py" "$root/$source" "$copy") || die "$source could not be read"
public=$(python3 "$here/public.py" --names "$root") || die "the headers of $root could not be read"

# Only functions defined here: the contract of one from another file is checked by that file's own wrapper. Only the
# translator: the other plug-ins take longer to load than it takes to run.
if ! frama-c -no-autoload-plugins -load-module frama-c-e_acsl -machdep gcc_x86_64 -kernel-warn-key annot-error=abort \
  -cpp-extra-args="-I$root/abi/include -I$root/abi/src -DNXMEM_QUIET_WORLD -DNXMEM_CONTRACT" "$copy" \
  -e-acsl -e-acsl-functions "$functions" -e-acsl-no-assert-print-data \
  -then-last -print -ocode "$out" >"$work/log" 2>&1; then
  grep -v '^\[kernel\] Parsing' "$work/log" | head -n 20 >&2
  die "$source: the translator failed"
fi
python3 "$here/finish.py" "$out" "$functions" "$public" "$work/log" "$warnings" ||
  die "$source: not every contract was translated"
