#!/usr/bin/env bash
# Says when the results of the last run on a GPU are older than the sources that they are of; 77: a test that was skipped.
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
now=$(bash hash.sh)
[[ -f results.json ]] || { echo "there is no results.json: run tests/gpu/visit.sh on a machine with a GPU"; exit 77; }
grep -q "\"sources\": \"$now\"" results.json && exit 0
echo "results.json is older than src/backend/cuda: run tests/gpu/visit.sh on a machine with a GPU"
exit 77
