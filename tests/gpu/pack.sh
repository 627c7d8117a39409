#!/usr/bin/env bash
# tests/gpu/pack.sh BUILD OUT.tar.xz [PROGRAM...]: packs the programs of a build (by default the command, the tests and the benchmark) with
# the libraries that they need, for a machine that has a GPU and none of them. There, in a copy of the sources:
#   mkdir -p build && tar xJf OUT.tar.xz -C build && tests/gpu/visit.sh build OUT DATA
# Left out: what such a machine has (the C and C++ libraries) and what CUDA brings (cuBLASLt, NCCL).
set -euo pipefail
build=$1 out=$2
programs=("${@:3}")
((${#programs[@]})) || programs=(transformer tests/transformer_tests bench/transformer_bench)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib"
for program in "${programs[@]}"; do
  mkdir -p "$work/$(dirname "$program")"
  cp "$build/$program" "$work/$program"
  strip "$work/$program"
  ldd "$build/$program"
done | awk '$3 ~ /^\// { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcuda|libcudart|libcublas|libcublasLt|libnccl)\.so' |
  while read -r library; do cp -L "$library" "$work/lib/"; done
sed -n 's/^CMAKE_HOME_DIRECTORY:[^=]*=//p' "$build/CMakeCache.txt" >"$work/built_in"  # the programs know files by this path
# The programs have much in common: the dictionary reaches from one to the next.
tar c -C "$work" . | xz -T1 --lzma2=preset=6,dict=128MiB >"$out"
printf '%s: %d bytes\n' "$out" "$(stat -c %s "$out")"
