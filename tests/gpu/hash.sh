#!/usr/bin/env bash
# The fingerprint of the sources that a GPU runs.
export LC_ALL=C  # the order of *
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../src/backend/cuda"
cat *.cu *.cuh *.h | sha256sum | cut -c1-16
