# example.sh: what the tests of examples share; sourced by them with EXAMPLE PLUGIN as arguments.
set -u
count=0
failed=0
out=$("$1" "$2" 2>&1)
status=$?
want() { # name line
  count=$((count + 1))
  if printf '%s\n' "$out" | grep -qxF -- "$2"; then echo "ok $count - $1"; else echo "not ok $count - $1"; failed=1; fi
}
finish() { # the exit code of the example, and of the test
  count=$((count + 1))
  if [ "$status" -eq 0 ]; then echo "ok $count - exit code 0"; else echo "not ok $count - exit code $status"; failed=1; fi
  [ "$failed" -eq 0 ] || printf '%s\n' "$out" | sed 's/^/# /'
  exit "$failed"
}
