#!/usr/bin/env bash
# tests/gpu/visit.sh BUILD OUT [DATA [PART...]]: all that must be seen on a GPU: the suite on the card with its golden cases, the memory
# checker, the same bits twice, with and without graphs and after kills, memory that runs out in mid-training, a process that exchanges
# with itself by NCCL, trainings (of what is there of DATA/multi30k, DATA/tinyshakespeare.txt, DATA/ETTh1.csv, DATA/fashion-mnist),
# benchmarks beside PyTorch. Parts: suite checker bits memory nccl train (or train_demo, train_multi30k, train_shakespeare, train_etth1,
# train_fashion) bench peers; without any, all of them. Leaves its logs in OUT, and OUT/results.json, which is kept as
# tests/gpu/results.json; parts that are run later into the same OUT are added to it.
set -u
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
build=$1 out=$2 data=${3:-}
parts=("${@:4}")
((${#parts[@]})) || parts=(suite checker bits memory nccl train bench peers)
mkdir -p "$out"
export TRANSFORMER_DEVICE=cuda
command=$build/transformer tests=$build/tests/transformer_tests bench=$build/bench/transformer_bench
work=$(mktemp -d)
say() { printf '== %s (%s s)\n' "$*" "$SECONDS"; }

# note NAME VALUE: a line of the result.
touch "$out/notes" "$out/bench.log"
note() { grep -v "^$1"$'\t' "$out/notes" >"$work/notes"; printf '%s\t%s\n' "$1" "$2" | cat "$work/notes" - >"$out/notes"; }
note sources "$(bash tests/gpu/hash.sh)"
note device "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"

suite() {
  # Many shards, since some tests take a minute; two cores for each worker, since each believes that the machine is its own.
  # SUITE_SECONDS is how long all of them may take.
  local end=$(($(date +%s) + ${SUITE_SECONDS:-600}))
  seq 0 95 | xargs -P "$(nproc)" --process-slot-var=slot -I{} sh -c 'export GTEST_TOTAL_SHARDS=96 GTEST_SHARD_INDEX={}
    left=$(($2 - $(date +%s))); [ $left -gt 0 ] &&
    timeout $left taskset -c "$slot,$(((slot + 1) % $(nproc)))" "$0" >"$1/shard-{}" 2>&1' "$tests" "$work" "$end"
  cat "$work"/shard-* >"$out/suite.log"
  note suite_passed "$(grep -h '^\[       OK \]' "$work"/shard-* | wc -l)"
  note suite_failed "$(grep -h '^\[  FAILED  \].*ms)' "$work"/shard-* | wc -l)"
  note suite_shards_not_ended "$((96 - $(grep -l '^\[==========\].*ran\.' "$work"/shard-* | wc -l)))"
  note ragged "$(grep -h 'tokens, forward' "$work"/shard-* | tail -1)"
  grep -h '^\[  FAILED  \].*ms)' "$work"/shard-* | sort -u
  grep -h -B12 '^\[  FAILED  \].*ms)' "$work"/shard-* | grep -v '^\[ *\(OK\|RUN\)' >"$out/failures.log"
}

checker() {  # small cases; gtest's own exit status does not count
  local tool cases='*Attention*:*Linear*:*Norm*:*CrossEntropy*:*Embedding*:*Dropout*:*Adam*:*TopK*:*Softmax*-*Trains*:*Golden*:*Search*'
  for tool in memcheck racecheck; do
    timeout 150 compute-sanitizer --tool $tool "$tests" --gtest_filter="$cases" >"$out/$tool.log" 2>&1 &
  done
  wait
  for tool in memcheck racecheck; do
    note "$tool" "$(grep -c '^\[       OK' "$out/$tool.log") tests, $(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/$tool.log" | tail -1 | sed 's/^=* //')"
    tail -n 2 "$out/$tool.log"
  done
}

bits() {  # twice, without graphs, and in pieces
  [[ -d $data/multi30k ]] || return
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

# Another program takes the card's memory during a training: its next validation finds none. The last checkpoint is there, and it goes on.
memory() {
  python3 -c 'import torch' 2>/dev/null && [[ -f $data/tinyshakespeare.txt ]] || return
  local common code
  common=(train lm --text "$data/tinyshakespeare.txt" --vocab char --d-model 512 --num-layers 8 --num-heads 8 --context 512 --batch-size 64
          --max-update 400 --validate-interval-updates 250 --save-interval-updates 50 --quiet --save-dir "$work/memory")
  "$command" "${common[@]}" >/dev/null 2>"$out/memory.log" &
  local training=$!
  while kill -0 $training 2>/dev/null && ! compgen -G "$work/memory/checkpoints/step-*" >/dev/null; do sleep 0.2; done
  python3 - <<'END' &
import time, torch
taken = []
while True:
    try: taken.append(torch.empty(8 << 20, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError: time.sleep(0.05)
END
  local other=$!
  wait $training; code=$?
  kill $other; wait $other 2>/dev/null
  tail -3 "$out/memory.log"
  note "memory taken in mid-training" "code $code, $(ls "$work/memory/checkpoints" | tail -1) kept: $(tail -1 "$out/memory.log" | tr '"\t' "' ")"
  "$command" "${common[@]}" >/dev/null 2>"$out/memory_after.log"
  note "and after it" "code $?: $(tail -1 "$out/memory_after.log" | tr '"\t' "' ")"
}

# One process that goes the way of several: by NCCL, whose own words are kept in nccl.log.
nccl() {
  [[ -f $data/tinyshakespeare.txt ]] || return
  local common run
  common=(train lm --text "$data/tinyshakespeare.txt" --vocab char --d-model 256 --num-layers 4 --num-heads 4 --context 128 --batch-size 32
          --max-update 200 --precision bfloat16 --clip-norm 0 --quiet)
  "$command" "${common[@]}" --save-dir "$work/alone" >/dev/null 2>"$out/nccl.log"
  for run in optimizer weights; do
    TRANSFORMER_PROCESSES=one NCCL_DEBUG=INFO "$command" "${common[@]}" --shard $run --save-dir "$work/$run" >>"$out/nccl.log" 2>&1
  done
  for run in alone optimizer weights; do sha256sum "$work/$run/model.safetensors" | cut -c1-16; done | tee "$out/nccl_bits"
  note "NCCL: $(grep -o 'NCCL version [^ ]*' "$out/nccl.log" | tail -1), $(grep -c 'ncclCommInitRank.*COMPLETE' "$out/nccl.log") joined; alone, \
sharded optimizer, sharded weights" "$([ "$(sort -u "$out/nccl_bits" | wc -l)" = 1 ] && echo same bits || echo different bits)"
}

# trained NAME COMMAND...: its last lines, with its time.
trained() {
  local name=$1 begin=$SECONDS
  shift
  "$@" >"$out/$name.log" 2>&1
  note "trained: $name" "$((SECONDS - begin)) s: $(tail -2 "$out/$name.log" | tr '"\t\n' "'  ")"
  tail -2 "$out/$name.log"
}

train_demo() { trained demo "$command" demo --out "$work/demo"; }

train_multi30k() {
  [[ -d $data/multi30k ]] || return
  local m=$data/multi30k
  trained multi30k "$command" train translate --source "$m/train.tok.en" --target "$m/train.tok.de" --valid-source "$m/valid.tok.en" \
    --valid-target "$m/valid.tok.de" --vocab-size 10000 --normalization identity --preset tiny --norm pre --attention-dropout 0 \
    --ffn-dropout 0 --lr 0.005 --warmup-updates 2000 --clip-norm 0 --max-tokens 4096 --max-epoch 90 --average 10 --precision bfloat16 \
    --save-dir "$work/multi30k"
  note "of it 8,000 updates" "$(tr '\r' '\n' <"$out/multi30k.log" | grep -o 'step 8000/.*' | head -1)"
  trained bleu "$command" evaluate "$work/multi30k/average" --source "$m/test2016.tok.en" --reference "$m/test2016.tok.de" --beam 5 --tokenize none
}

train_shakespeare() {
  [[ -f $data/tinyshakespeare.txt ]] || return
  trained shakespeare "$command" train lm --config recipes/shakespeare-char-gpu.toml --text "$data/tinyshakespeare.txt" --save-dir "$work/text"
}

train_etth1() {
  [[ -f $data/ETTh1.csv ]] || return
  trained etth1 "$command" train forecast --config recipes/etth1.toml --csv "$data/ETTh1.csv" --save-dir "$work/etth1"
}

train_fashion() {
  [[ -d $data/fashion-mnist ]] || return
  trained fashion "$command" train image --config recipes/fashion-mnist.toml --idx "$data/fashion-mnist" --save-dir "$work/fashion"
}

train() { train_demo; train_multi30k; train_shakespeare; train_etth1; train_fashion; }

bench() { timeout 150 "$bench" cuda --profile 2>&1 | tee "$out/bench.log" | grep -v calls; }

peers() {
  python3 -c 'import torch' 2>/dev/null || return
  timeout 300 python3 bench/peers/torch_cuda_steps.py 2>&1 | tee "$out/peers.log"
}

for part in "${parts[@]}"; do
  say "$part"
  "$part"
done
{
  printf '{\n'
  while IFS=$'\t' read -r name value; do printf '  "%s": "%s",\n' "$name" "$value"; done <"$out/notes"
  printf '  "bench": [\n'; grep 'ms/step\|tok/s' "$out/bench.log" | sed 's/  */ /g; s/"//g; s/.*/    "&",/; $ s/,$//'; printf '  ],\n'
  printf '  "peers": [\n'; grep -s 'ms/step' "$out/peers.log" | sed 's/  */ /g; s/.*/    "&",/; $ s/,$//'; printf '  ]\n}\n'
} >"$out/results.json"
rm -rf "$work"
say done
