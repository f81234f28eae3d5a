#!/bin/bash -eu
# ClusterFuzzLite builds what OSS-Fuzz builds.
exec bash -eu "$SRC/nxmem/fuzz/oss-fuzz/build.sh"
