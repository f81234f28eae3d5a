#!/usr/bin/env bash
# TAP: is what translated contracts count with GMP's, and what they hold for readable AddressSanitizer's? Compiled as the
# translated code is. Argument: memory or numbers.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ ${1-} == memory || ${1-} == numbers ]] || { echo "usage: check_runtime.sh memory|numbers" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plain() { clang -std=c11 -O2 -Wall -Wextra -Werror "$@"; }
for part in runtime numbers; do plain -c "$here/$part.c" -o "$work/$part.o"; done
plain -fsanitize=address "$here/$1_check.c" "$work"/*.o -lgmp -o "$work/check"
"$work/check"
