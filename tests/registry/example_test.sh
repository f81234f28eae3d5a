#!/bin/sh
# example_test.sh: the example of nxmem_registry.h does what it says. EXAMPLE PLUGIN. Prints TAP.
. "$(dirname "$0")/../host/example.sh"
echo 1..9
want "the first one registered is there" "old: active, 0 live, 0 prepared, 0 quarantined"
want "the second one is selected" "current: active, selected, 0 live, 0 prepared, 0 quarantined"
want "a queued release completes" "drained: 1 completed"
want "a loss retains what is live" "lost: 1 retained"
want "and says why" "kept: 512 bytes: device-lost"
want "removal says why not" "not removed: remove mechanism: it is device-lost; retire it, or confirm its termination"
want "the plugin stays while its books do" "unmapped: no"
want "all the way to the end" "example: ok"
finish
