#!/bin/sh
# example_test.sh: the example of nxmem_manager.h does what it says. EXAMPLE PLUGIN. Prints TAP.
. "$(dirname "$0")/../host/example.sh"
echo 1..7
want "a budget refuses, and says by how much" "refused: found 16384, needed at most 4096"
want "a holder is asked for what is missing" "asked for 12288 bytes"
want "what it gave back is granted" "under pressure: 57344 bytes used by 2 allocations, 1 refusals"
want "the books are empty at the end" "all released: 0 bytes used by 0 allocations, 1 refusals"
want "the plugin goes" "unmapped: yes"
want "all the way to the end" "example: ok"
finish
