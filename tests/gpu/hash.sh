#!/usr/bin/env bash
# The fingerprint of the sources that a GPU runs.
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../src/backend/cuda"
LC_ALL=C cat *.cu *.cuh *.h | sha256sum | cut -c1-16
