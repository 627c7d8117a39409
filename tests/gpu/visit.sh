#!/usr/bin/env bash
# tests/gpu/visit.sh BUILD OUT [DATA [PART...]]: what must be seen on a machine with a GPU and many cores. BUILD: a build, or what
# tests/gpu/pack.sh packed, unpacked. DATA: a folder with what is there of multi30k/, tinyshakespeare.txt, ETTh1.csv, fashion-mnist/ (Debian's
# dataset-fashion-mnist) and parity.py (`parity.py COMMAND FOLDER CASE...`, which compares `transformer run` with reference cases).
#
#   part               seconds  what it shows
#   machine                  5  card, versions, cores
#   suite                  300  all tests on the card: ops, golden cases, a million ragged tokens, dropout masks, a lost card, kills of each
#                               task; the memory checker (memcheck, racecheck) runs beside it
#   parity                  20  `transformer run` on the reference cases of every family
#   bits                    30  the same training twice, without graphs, and killed five times: the same bits
#   memory                  30  another program takes the card's memory during a training, which goes on afterwards
#   bad                     20  no card, no such card, batches that no card holds
#   nccl                    25  one process that exchanges with itself by NCCL
#   bench                   80  training steps with a profile by kernel, generation beside Hugging Face
#   peers                  130  the same steps in PyTorch, compiled
#   train_demo train_multi30k train_shakespeare train_etth1 train_fashion      25 45 40 15 45
#   cores_base              80  the base step on all cores and on one, beside PyTorch and the matmul rate
#   cores_decode            40  GPT-2 written and read beside the memory's and the matmul rate
#   cores_busy              60  all cores with others busy on half of them, and with OMP_WAIT_POLICY=passive, beside the idle machine
#   cores_tasks            330  each task with 1, 2, 4 … threads beside PyTorch
#
# Groups: correct (machine to nccl), speed (machine, bench, peers, train), train, cores (machine and these); without any part, all of them.
# Where no call may take more than ten minutes, three take it all, 22 minutes in sum:
#   tests/gpu/visit.sh build OUT1 DATA correct                                   about 430 s
#   tests/gpu/visit.sh build OUT2 DATA speed                                     about 390 s
#   tests/gpu/visit.sh build OUT3 DATA cores                                     about 510 s
#   tests/gpu/results.py OUT1/notes OUT2/notes OUT3/notes >tests/gpu/results.json
# VISIT_SECONDS (default 570) is how long one call may take: a part that would not end is cut short, one that cannot begin is named as such.
# OUT: notes and results.json, written as they come, and after each part logs.tar.gz. VISIT_SHORT=1 with TRANSFORMER_DEVICE=cpu goes through
# all parts with little work, which tries this script where there is no card.
set -u
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit
build=$(readlink -f "$1") out=$2 data=$(readlink -f "${3:-.}")
all=(machine suite parity bits memory bad nccl bench peers train_demo train_multi30k train_shakespeare train_etth1 train_fashion
     cores_base cores_decode cores_busy cores_tasks)
declare -A groups=([correct]="${all[*]:0:7}" [speed]="machine ${all[*]:7:7}" [train]="${all[*]:9:5}" [cores]="machine ${all[*]:14}")
parts=()
for part in "${@:4}"; do
  for one in ${groups[$part]:-$part}; do
    [[ " ${all[*]} " == *" $one "* ]] || { echo "visit.sh: there is no part '$one': ${all[*]} ${!groups[*]}" >&2; exit 2; }
    parts+=("$one")
  done
done
((${#parts[@]})) || parts=("${all[@]}")

mkdir -p "$out"
out=$(readlink -f "$out")
work=$(mktemp -d)
logs=$work/logs
mkdir "$logs"
trap 'rm -rf "$work"' EXIT
command=$build/transformer tests=$build/tests/transformer_tests bench=$build/bench/transformer_bench
export TRANSFORMER_DEVICE=${TRANSFORMER_DEVICE:-cuda} PYTHONUNBUFFERED=1
short=${VISIT_SHORT:-} cores=$(nproc)
few() { if [[ -n $short ]]; then echo "$2"; else echo "$1"; fi; }  # few USUAL SHORT

# Python sees its own libraries, programs those that were packed with them.
outer=${LD_LIBRARY_PATH:-}
python=$work/python
printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$outer" "$(command -v "${VISIT_PYTHON:-python3}")" >"$python"
chmod +x "$python"
[[ -d $build/lib ]] && export LD_LIBRARY_PATH=$build/lib${outer:+:$outer}:/usr/local/cuda/lib64
# They know files by the place where they were built.
if [[ -f $build/built_in ]] && home=$(cat "$build/built_in") && [[ ! -e $home ]]; then
  mkdir -p "$(dirname "$home")" && ln -s "$PWD" "$home"
fi

say() { printf '== %s (%s s)\n' "$*" "$SECONDS"; }
left() { local left=$((${VISIT_SECONDS:-570} - SECONDS)); echo $((left > 0 ? left : 0)); }
within() { local left; left=$(left); echo $(($1 < left ? $1 : left > 1 ? left : 1)); }  # so many seconds, or what is left
limited() { timeout -k 5 "$(within "$1")" "${@:2}"; }

# note NAME VALUE: a line of the result. add NAME VALUE: another one of that name. What runs side by side takes turns.
touch "$out/notes"
alone() { { flock 9; "$@"; } 9>"$work/lock"; }
without() { grep -v "^$1"$'\t' "$out/notes" >"$work/notes"; cp "$work/notes" "$out/notes"; }
append() { printf '%s\t%s\n' "$1" "$(tr '\t\r\n' '   ' <<<"$2")" >>"$out/notes"; }
instead() { without "$1" && append "$1" "$2"; }
forget() { alone without "$1"; }
add() { alone append "$1" "$2"; }
note() { alone instead "$1" "$2"; printf '%s: %s\n' "$1" "$2"; }
keep() {
  tar czf "$work/logs.tar.gz" -C "$work" logs 2>/dev/null && mv "$work/logs.tar.gz" "$out/logs.tar.gz"
  "$python" tests/gpu/results.py "$out/notes" >"$work/results.json" && mv "$work/results.json" "$out/results.json"
}

machine() {
  note sources "$(bash tests/gpu/hash.sh)"
  note device "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1)"
  note processor "$cores of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(grep -c amx_bf16 /proc/cpuinfo) with AMX"
  note libraries "$("$python" -c 'import ctypes, torch, transformers
print("PyTorch", torch.__version__, "Transformers", transformers.__version__)' 2>/dev/null), $(cublaslt)"
}
cublaslt() {  # the version that programs find
  python3 -c 'import ctypes, glob
name = sorted(glob.glob("/usr/local/cuda/lib64/libcublasLt.so.1?"))[-1]
print("cuBLASLt", ctypes.CDLL(name).cublasLtGetVersion())' 2>/dev/null
}

# seen NAME LOGS PATTERN: how many tests of that name have passed.
seen() { note "$1" "$(cat $2 | grep -c "^\[       OK \] $3") of $(cat $2 | grep -c "^\[ RUN      \] $3") passed"; }

# Tests that take long are jobs of their own, the others come in shards; two cores for each, since each believes that the machine is its own.
suite() {
  local slow='*Processes*:*Resume*:ShardWeights*:LoraCommand*:Networks*:ServeLoad*:Demo*:Endings*:Cuda.*:CudaWays.*' i seconds shards=64
  local some='*' checking=
  seconds=$(within 420)
  [[ -n $short ]] && slow='CudaWays.*:Cuda.*' some='Norm*:Bleu*' shards=2
  checker >"$logs/checker.log" 2>&1 &
  checking=$!
  mkdir -p "$logs/suite"
  {
    "$tests" --gtest_list_tests --gtest_filter="$slow" | awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1, 1, 0 }'
    for ((i = 0; i < shards; ++i)); do echo "$some-$slow $shards $i"; done
  } >"$work/jobs"
  xargs -a "$work/jobs" -P "$cores" --process-slot-var=slot -n 3 bash -c '
    left=$(($3 - $(date +%s)))
    ((left > 0)) || exit 0
    GTEST_TOTAL_SHARDS=$5 GTEST_SHARD_INDEX=$6 timeout -k 5 $left taskset -c "$slot,$(((slot + 1) % $(nproc)))" "$1" --gtest_filter="$4" \
      >"$2/$$" 2>&1' suite "$tests" "$logs/suite" $(($(date +%s) + seconds))
  local passed failed skipped listed
  cat "$logs"/suite/* >"$logs/suite.log"
  rm -r "$logs/suite"
  passed=$(grep -c '^\[       OK \]' "$logs/suite.log") failed=$(grep -c '^\[  FAILED  \].*ms)' "$logs/suite.log")
  skipped=$(grep -c '^\[  SKIPPED \].*ms)' "$logs/suite.log")
  listed=$("$tests" --gtest_list_tests --gtest_filter="$some:$slow" | grep -c '^  ')
  note suite "$passed passed, $failed failed, $skipped skipped, $((listed - passed - failed - skipped)) not ended"
  forget 'suite, failed'
  grep -h '^\[  FAILED  \].*ms)' "$logs/suite.log" | sed 's/^\[  FAILED  \] //' | sort -u | while read -r name; do add 'suite, failed' "$name"; done
  grep -h '^\[  FAILED  \].*ms)' "$logs/suite.log" | sort -u | head -20
  grep -h -B12 '^\[  FAILED  \].*ms)' "$logs/suite.log" | grep -v '^\[ *\(OK\|RUN\)' >"$logs/failures.log"
  note 'ragged batches' "$(grep 'tokens, forward' "$logs/suite.log" | tail -1)"
  seen 'golden cases' "$logs/suite.log" Golden/
  seen 'greedy and beams, token for token' "$logs/suite.log" '.*GivesTheReferencesTokens'
  seen 'dropout masks, bit for bit' "$logs/suite.log" CudaWays.Dropout
  seen 'each way of a kernel' "$logs/suite.log" CudaWays
  seen 'recorded steps have the bits of others' "$logs/suite.log" '.*RecordedSteps'
  seen 'killed up to ten times' "$logs/suite.log" Tasks/Resume
  seen 'a lost card' "$logs/suite.log" Cuda.ALostCard
  wait $checking
  cat "$logs/checker.log"
}

# Small cases; gtest's own exit status does not count. Two tools, several processes of each.
checker() {
  command -v compute-sanitizer >/dev/null || { note 'memory checker' 'there is no compute-sanitizer'; return; }
  local cases='*Attention*:*Linear*:*Norm*:*CrossEntropy*:*Embedding*:*Dropout*:*Adam*:*TopK*:*Softmax*:CudaWays.*-*Trains*:*Golden*:*Search*'
  local recorded='*RecordedSteps*gpt2' tool i seconds running=()
  seconds=$(within 300)
  for tool in memcheck racecheck; do
    for i in 0 1 2 3; do
      GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$i timeout -s INT -k 20 "$seconds" compute-sanitizer --tool $tool "$tests" \
        --gtest_filter="$cases" >"$logs/$tool-$i.log" 2>&1 &
      running+=($!)
    done
    timeout -s INT -k 20 "$seconds" compute-sanitizer --tool $tool "$tests" --gtest_filter="$recorded" >"$logs/$tool-recorded.log" 2>&1 &
    running+=($!)
  done
  wait "${running[@]}"
  for tool in memcheck racecheck; do
    note $tool "$(cat "$logs"/$tool-*.log | grep -c '^\[       OK') tests, $(cat "$logs"/$tool-*.log | grep 'ERROR SUMMARY\|RACECHECK SUMMARY' |
      sed 's/^=* //' | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 times /' | paste -sd ';')"
  done
}

parity() {
  [[ -f $data/parity.py ]] || { note parity 'there is no parity.py'; return; }
  local folder cases=()
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "${LD_LIBRARY_PATH:-}" "$command" >"$work/transformer"
  chmod +x "$work/transformer"
  for folder in tests/golden/*/; do
    folder=$(basename "$folder")
    [[ -f tests/golden/$folder/expected.safetensors && $folder != seed-* ]] && cases+=("$folder")
  done
  [[ -n $short ]] && cases=("${cases[@]:0:2}")
  printf '%s\n' "${cases[@]}" |
    limited 90 xargs -P $((cores / 2)) -n 1 "$python" "$data/parity.py" "$work/transformer" tests/golden >"$logs/parity.log" 2>&1
  note parity "$(grep -c '^ok ' "$logs/parity.log") of ${#cases[@]}, $(awk '/^ok |^FAIL/ { for (i = 1; i < NF; ++i) {
    if ($i == "fwd" && $(i + 1) + 0 > f) f = $(i + 1) + 0; if ($i == "bwd" && $(i + 1) + 0 > b) b = $(i + 1) + 0 } }
    END { printf "forward %.1e, gradients %.1e at most", f, b }' "$logs/parity.log")"
  grep '^FAIL' "$logs/parity.log"
}

newest() { ls -v "$1/checkpoints" 2>/dev/null | grep '^step-' | tail -1; }
the_same() {  # the_same RUN...: have their models the same bits?
  local run bits=()
  for run; do bits+=("$(sha256sum "$work/$run/model.safetensors" 2>/dev/null | cut -c1-16)"); done
  if [[ -z ${bits[0]} || " ${bits[*]} " == *'  '* ]]; then echo 'not all there'
  elif (($(printf '%s\n' "${bits[@]}" | sort -u | wc -l) == 1)); then echo 'the same bits'
  else echo "other bits: ${bits[*]}"; fi
}

bits() {  # twice, without graphs, and in pieces
  [[ -d $data/multi30k ]] || { note bits 'there is no multi30k'; return; }
  local m=$data/multi30k common run
  common=(train translate --source "$m/train.tok.en" --target "$m/train.tok.de" --vocab-size 4000 --preset tiny --max-tokens "$(few 4096 300)"
          --max-update "$(few 600 40)" --precision bfloat16 --seed 3 --quiet --save-interval-updates "$(few 60 4)")
  for run in a b; do limited 60 "$command" "${common[@]}" --save-dir "$work/$run" >/dev/null 2>>"$logs/bits.log"; done
  TRANSFORMER_CUDA_GRAPHS=off limited 60 "$command" "${common[@]}" --save-dir "$work/c" >/dev/null 2>>"$logs/bits.log"
  local i last child at=()
  for i in 1 2 3 4 5; do  # each life comes further by one checkpoint at least
    last=$(newest "$work/d")
    "$command" "${common[@]}" --save-dir "$work/d" >/dev/null 2>>"$logs/bits.log" &
    child=$!
    until [[ $(newest "$work/d") != "$last" ]] || ! kill -0 $child 2>/dev/null || (($(left) == 0)); do sleep 0.02; done
    sleep 0.0$((RANDOM % 90 + 10))
    kill -KILL $child 2>/dev/null && at+=("$(newest "$work/d")")
    wait $child 2>/dev/null
  done
  limited 60 "$command" "${common[@]}" --save-dir "$work/d" >/dev/null 2>>"$logs/bits.log"
  note 'bits: twice' "$(the_same a b)"
  note 'bits: without graphs' "$(the_same a c)"
  note 'bits: killed' "${#at[@]} times, after ${at[*]}: $(the_same a d)"
}

# Another program takes the card's memory during a training: its next validation finds none. The last checkpoint is there, and it goes on.
memory() {
  [[ -f $data/tinyshakespeare.txt ]] || { note 'memory taken' 'there is no text'; return; }
  local common code training other
  common=(train lm --text "$data/tinyshakespeare.txt" --vocab char --d-model "$(few 512 32)" --num-layers "$(few 8 1)" --num-heads "$(few 8 1)"
          --context "$(few 512 16)" --batch-size "$(few 64 2)" --precision bfloat16 --max-update "$(few 700 60)"
          --validate-interval-updates "$(few 500 40)" --save-interval-updates "$(few 50 10)" --quiet --save-dir "$work/memory")
  "$python" - "$work/take" >"$logs/taker.log" 2>&1 <<'END' &
import os, sys, time
import torch
torch.zeros(1, device="cuda")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
taken = []
for size in (4 << 30, 256 << 20, 32 << 20, 2 << 20):
    try:
        while True:
            taken.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        print(len(taken), "blocks", flush=True)
while True:
    try: taken.append(torch.empty(2 << 20, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError: time.sleep(0.05)
END
  other=$!
  sleep "$(few 6 1)"  # until it has its library
  limited 90 "$command" "${common[@]}" >/dev/null 2>"$logs/memory.log" &
  training=$!
  while kill -0 $training 2>/dev/null && [[ -z $(newest "$work/memory") ]]; do sleep 0.05; done
  touch "$work/take"
  wait $training; code=$?
  kill $other 2>/dev/null; wait $other 2>/dev/null
  note 'memory taken in mid-training' "code $code, $(newest "$work/memory") kept: $(tail -1 "$logs/memory.log")"
  limited 60 "$command" "${common[@]}" >/dev/null 2>"$logs/memory_after.log"
  note 'and after it' "code $?, $(newest "$work/memory"): $(tail -1 "$logs/memory_after.log")"
}

bad() {
  local model=tests/golden/gpt2
  [[ -d $model ]] || model=$work/none
  said() {  # said NAME COMMAND...
    local name=$1 code
    shift
    limited 60 "$@" >"$logs/bad.log" 2>&1; code=$?
    note "$name" "code $code: $(grep . "$logs/bad.log" | tail -1)"
  }
  said 'no such card' "$command" inspect "$model" --device cuda:9
  said 'no card' env CUDA_VISIBLE_DEVICES= "$command" inspect "$model" --device cuda
  [[ -f $data/tinyshakespeare.txt && -z $short ]] || return
  said 'a batch that no card holds' "$command" train lm --text "$data/tinyshakespeare.txt" --vocab char --d-model 1024 --num-heads 8 --num-layers 12 \
    --context 1024 --batch-size 4096 --max-update 2 --quiet --save-dir "$work/large"
}

# One process that goes the way of several: by NCCL, whose own words are kept.
nccl() {
  [[ -f $data/tinyshakespeare.txt ]] || { note NCCL 'there is no text'; return; }
  local common run folder
  folder=$("$python" -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + "/lib")' 2>/dev/null)
  common=(train lm --text "$data/tinyshakespeare.txt" --vocab char --d-model "$(few 256 32)" --num-layers "$(few 4 2)" --num-heads 4
          --context "$(few 128 16)" --batch-size "$(few 32 4)" --max-update "$(few 200 8)" --precision bfloat16 --clip-norm 0 --quiet)
  limited 60 "$command" "${common[@]}" --save-dir "$work/alone" >/dev/null 2>"$logs/nccl.log"
  for run in optimizer weights; do
    TRANSFORMER_PROCESSES=one NCCL_DEBUG=INFO LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}${folder:+:$folder} \
      limited 60 "$command" "${common[@]}" --shard $run --save-dir "$work/$run" >>"$logs/nccl.log" 2>&1
  done
  note NCCL "$(grep -o 'NCCL version [^ ]*' "$logs/nccl.log" | tail -1), $(grep -c 'ncclCommInitRank.*COMPLETE' "$logs/nccl.log") joined; beside one \
that is alone: sharded optimizer $(the_same alone optimizer), sharded weights $(the_same alone weights)"
}

bench() {
  TRANSFORMER_PEER_PYTHON=$python limited "$(few 280 20)" "$bench" cuda --profile >"$logs/bench.log" 2>&1
  forget bench
  grep 'ms/step\|tok/s\|tokens/s' "$logs/bench.log" | while read -r line; do add bench "$line"; done
  grep -v calls "$logs/bench.log" | tail -20
}

peers() {
  limited "$(few 300 20)" "$python" bench/peers/torch_cuda_steps.py >"$logs/peers.log" 2>&1
  forget peers
  grep 'ms/step\|^PyTorch' "$logs/peers.log" | while read -r line; do add peers "$line"; done
  tail -4 "$logs/peers.log"
}

# trained NAME SECONDS COMMAND...: its last lines, with its time, and how much of it the card had work (the median of samples).
trained() {
  local name=$1 seconds=$2 begin code watcher
  shift 2
  nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits -lms 250 >"$logs/$name.busy" 2>/dev/null &
  watcher=$!
  begin=$(date +%s.%N)
  limited "$seconds" "$@" >"$logs/$name.log" 2>&1; code=$?
  note "trained: $name" "$(awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $begin }") s, code $code: $(tr '\r' '\n' <"$logs/$name.log" | grep . | tail -2)"
  kill $watcher 2>/dev/null; wait $watcher 2>/dev/null
  note "card busy: $name" "$(sort -n "$logs/$name.busy" | awk '{ of[NR] = $1 } END { if (NR) print of[int((NR + 1) / 2)] " %, " NR " samples" }')"
}

train_demo() { trained demo "$(few 60 6)" "$command" demo --out "$work/demo"; }

train_multi30k() {
  [[ -d $data/multi30k ]] || { note 'trained: multi30k' 'there are no data'; return; }
  local m=$data/multi30k less=()
  [[ -n $short ]] && less=(--max-update 10 --save-interval-updates 5 --validate-interval-updates 5)
  trained multi30k 150 "$command" train translate --source "$m/train.tok.en" --target "$m/train.tok.de" --valid-source "$m/valid.tok.en" \
    --valid-target "$m/valid.tok.de" --vocab-size "$(few 10000 2000)" --normalization identity --preset tiny --norm pre --attention-dropout 0 \
    --ffn-dropout 0 --lr 0.005 --warmup-updates 2000 --clip-norm 0 --max-tokens "$(few 4096 300)" --max-epoch 90 --average 10 \
    --precision bfloat16 --save-dir "$work/multi30k" "${less[@]}"
  note "of it 8,000 updates" "$(tr '\r' '\n' <"$logs/multi30k.log" | grep -o 'step 8000/.*' | head -1)"
  trained bleu 40 "$command" evaluate "$work/multi30k/average" --source "$m/test2016.tok.en" --reference "$m/test2016.tok.de" --beam "$(few 5 1)" \
    --tokenize none
}

train_shakespeare() {
  [[ -f $data/tinyshakespeare.txt ]] || { note 'trained: shakespeare' 'there is no text'; return; }
  local less=()
  [[ -n $short ]] && less=(--max-update 2 --warmup-updates 1)
  trained shakespeare 200 "$command" train lm --config recipes/shakespeare-char-gpu.toml --device "$TRANSFORMER_DEVICE" \
    --text "$data/tinyshakespeare.txt" --save-dir "$work/text" "${less[@]}"
}

train_etth1() {
  [[ -f $data/ETTh1.csv ]] || { note 'trained: etth1' 'there are no data'; return; }
  local less=()
  [[ -n $short ]] && less=(--max-update 5)
  trained etth1 90 "$command" train forecast --config recipes/etth1.toml --csv "$data/ETTh1.csv" --save-dir "$work/etth1" "${less[@]}"
}

train_fashion() {
  [[ -d $data/fashion-mnist ]] || { note 'trained: fashion' 'there are no data'; return; }
  local less=()
  [[ -n $short ]] && less=(--max-update 5 --warmup-updates 1)
  trained fashion 120 "$command" train image --config recipes/fashion-mnist.toml --idx "$data/fashion-mnist" --save-dir "$work/fashion" "${less[@]}"
}

# figures NAME LOG BESIDE -- ARGUMENTS: a benchmark on the CPU, and its figures under that name.
figures() {
  local name=$1 log=$2 beside=$3
  shift 4
  TRANSFORMER_DEVICE=cpu limited "$(few 240 60)" "$bench" "$@" --json "$logs/$log.json" >"$logs/$log.log" 2>&1 || tail -1 "$logs/$log.log"
  [[ -f $logs/$log.json ]] || { add "$name" "$* gave nothing: $(tail -1 "$logs/$log.log")"; return; }
  "$python" tests/gpu/figures.py "$name" "$logs/$log.json" ${beside:+"$logs/$beside.json"} | tee -a "$out/notes"
}

cores_base() {
  forget 'cores: base step'
  export TRANSFORMER_PEER_PYTHON=$python
  figures 'cores: base step' base '' -- --threads "$cores" --rounds "$(few 2 1)" --peer-modes eager --precisions "$(few 'float32 bfloat16' bfloat16)"
  figures 'cores: base step' base_one '' -- scaling --works base --counts 1 --brief --precisions "$(few 'float32 bfloat16' bfloat16)"
  unset TRANSFORMER_PEER_PYTHON
}

cores_decode() {
  forget 'cores: GPT-2'
  figures 'cores: GPT-2' decode '' -- decode --threads "$cores" --rounds "$(few 3 1)" --tokens "$(few 64 4)" --prompt "$(few 512 32)"
}

cores_busy() {
  local works precisions i others=()
  works=$(few 'base lm decode' lm) precisions=$(few 'float32 bfloat16' float32)
  local measure=(scaling --works "$works" --precisions "$precisions" --counts "$cores" --seconds "$(few 1 0.2)")
  forget 'cores: idle' && forget 'cores: others busy on half' && forget 'cores: passive'
  figures 'cores: idle' idle '' -- "${measure[@]}"
  for ((i = 0; i < cores / 2; ++i)); do
    taskset -c $((i * 2)) sh -c 'while :; do :; done' &
    others+=($!)
  done
  figures 'cores: others busy on half' busy idle -- "${measure[@]}"
  kill "${others[@]}"; wait "${others[@]}" 2>/dev/null
  OMP_WAIT_POLICY=passive figures 'cores: passive' passive idle -- "${measure[@]}"
}

cores_tasks() {
  local task
  forget 'cores: tasks'
  export TRANSFORMER_PEER_PYTHON=$python
  for task in $(few 'lm image classify mlm translate forecast' lm); do
    (($(left) > 5)) || { add 'cores: tasks' "$task: not begun"; continue; }
    figures 'cores: tasks' "task_$task" '' -- scaling --works "$task" --threads "$cores" --brief --seconds "$(few 0.5 0.1)"
    keep
  done
  unset TRANSFORMER_PEER_PYTHON
}

# Nothing can be seen without them, and minutes may count.
for program in "$command --version" "$tests --gtest_list_tests"; do
  [[ $program == "$command "* || -e $tests ]] || continue
  $program >"$logs/start.log" 2>&1 && continue
  note programs "$program: $(tail -1 "$logs/start.log")"
  keep
  exit 1
done
forget programs
forget 'not begun'
for part in "${parts[@]}"; do
  (($(left) > 10)) || { add 'not begun' "$part"; say "$part: no time is left"; continue; }
  say "$part"
  begin=$SECONDS
  "$part"
  note "seconds: $part" $((SECONDS - begin))
  keep
done
keep
say "that was all"
