#!/usr/bin/env bash
# tests/gpu/visit.sh BUILD OUT [DATA]: all that must be seen on a GPU, in one go: the suite on the card, the golden cases, the memory
# checker, the same bits twice, with and without graphs and after kills, trainings (where DATA has multi30k/ …), benchmarks beside PyTorch.
# Leaves its logs in OUT, and OUT/results.json, which is kept as tests/gpu/results.json.
set -u
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
build=$1 out=$2 data=${3:-}
mkdir -p "$out"
export TRANSFORMER_DEVICE=cuda
command=$build/transformer tests=$build/tests/transformer_tests bench=$build/bench/transformer_bench
work=$(mktemp -d)
say() { printf '== %s (%s s)\n' "$*" "$SECONDS"; }

# note NAME VALUE: a line of the result.
: >"$out/notes"
note() { printf '%s\t%s\n' "$1" "$2" >>"$out/notes"; }
note sources "$(bash tests/gpu/hash.sh)"
note device "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"

suite() {
  local shards=${1:-$(nproc)} i
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout 240 "$tests" >"$work/shard-$i" 2>&1 &
  done
  wait
  cat "$work"/shard-* >"$out/suite.log"
  note suite_passed "$(grep -h '^\[       OK \]' "$work"/shard-* | wc -l)"
  note suite_failed "$(grep -h '^\[  FAILED  \].*ms)' "$work"/shard-* | wc -l)"
  grep -h '^\[  FAILED  \].*ms)' "$work"/shard-* | sort -u
  grep -h -B12 '^\[  FAILED  \].*ms)' "$work"/shard-* | grep -v '^\[ *\(OK\|RUN\)' >"$out/failures.log"
}

checker() {  # small cases; gtest's own exit status does not count
  local tool
  for tool in memcheck racecheck; do
    timeout "${1:-100}" compute-sanitizer --tool $tool "$tests" --gtest_filter="$2" >"$out/$tool.log" 2>&1
    note "$tool" "$(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/$tool.log" | tail -1 | sed 's/^=* //')"
    tail -2 "$out/$tool.log"
  done
}

same_bits() {  # twice, without graphs, and in pieces
  local m=$data/multi30k common
  common=(train translate --source "$m/train.tok.en" --target "$m/train.tok.de" --vocab-size 4000 --preset tiny --max-tokens 4096
          --max-update 600 --precision bfloat16 --seed 3 --quiet --save-interval-updates 60)
  "$command" "${common[@]}" --save-dir "$work/a" >/dev/null 2>"$out/bits.log"
  "$command" "${common[@]}" --save-dir "$work/b" >/dev/null 2>>"$out/bits.log"
  TRANSFORMER_CUDA_GRAPHS=off "$command" "${common[@]}" --save-dir "$work/c" >/dev/null 2>>"$out/bits.log"
  local i
  for i in 1 2 3 4 5; do
    timeout -s KILL "$(awk "BEGIN { srand($i); print 1.6 + rand() * 1.2 }")" "$command" "${common[@]}" --save-dir "$work/d" >/dev/null 2>&1
    ls "$work/d/checkpoints" 2>/dev/null | tail -1
  done
  "$command" "${common[@]}" --save-dir "$work/d" >/dev/null 2>>"$out/bits.log"
  local run
  for run in a b c d; do sha256sum "$work/$run/model.safetensors" | cut -c1-16; done | tee "$out/bits"
  note "bits: twice, without graphs, killed five times" "$([ "$(sort -u "$out/bits" | wc -l)" = 1 ] && echo same || echo different)"
}

say suite; suite
say checker; checker 60 '*Attention*:*Linear*:*Norm*:*CrossEntropy*:*Embedding*:*Dropout*:*Adam*:*TopK*:*Softmax*-*Trains*:*Golden*'
if [[ -n $data ]]; then say bits; same_bits; fi
say bench; timeout 120 "$bench" cuda --profile 2>&1 | tee "$out/bench.log" | grep -v calls
if python3 -c 'import torch' 2>/dev/null; then
  say peers; timeout 200 python3 bench/peers/torch_cuda_steps.py 2>&1 | tee "$out/peers.log"
fi
{
  printf '{\n'
  while IFS=$'\t' read -r name value; do printf '  "%s": "%s",\n' "$name" "$value"; done <"$out/notes"
  printf '  "bench": [\n'; grep 'ms/step\|tok/s' "$out/bench.log" | sed 's/  */ /g; s/"//g; s/.*/    "&",/; $ s/,$//'; printf '  ],\n'
  printf '  "peers": [\n'; grep -s 'ms/step' "$out/peers.log" | sed 's/  */ /g; s/.*/    "&",/; $ s/,$//'; printf '  ]\n}\n'
} >"$out/results.json"
rm -rf "$work"
say done
