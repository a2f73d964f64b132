#!/usr/bin/env bash
# The whole program over the GPU's kernels, without a GPU: PROGRAM has the shim as a device.
#   run.sh PROGRAM NVML
# NVML: tests/telemetry's library in its place.
set -u
program=$1
nvml=$(realpath "$2")
failed=0
export KVGAUGE_NVML=/nonexistent/libnvidia-ml.so.1

# expect CODE PATTERN COUNT ARGUMENTS...: the exit code, and how many lines of JSON match.
expect() {
    local code=$1 pattern=$2 count=$3 got matches
    shift 3
    "$program" "$@" --device simt -o jsonl >out.jsonl 2>err.txt
    got=$?
    matches=$(grep -c -- "$pattern" out.jsonl)
    if [ "$got" -ne "$code" ] || [ "$matches" -ne "$count" ]; then
        printf 'FAILED: %s\n  exit code %d (%d expected), %d lines with %s (%d expected)\n' \
            "$*" "$got" "$code" "$matches" "$pattern" "$count"
        head -c 600 err.txt
        failed=$((failed + 1))
    fi
}
# What stderr must say about the last run.
said() {
    if ! grep -q -- "$1" err.txt out.jsonl; then
        printf 'FAILED: nothing says "%s"\n' "$1"
        failed=$((failed + 1))
    fi
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
program=$(realpath "$program")
ok='"kernel":"mma".*"status":"ok"'
small=(--tokens 130 --seqs 2 --samples 1)

expect 0 "$ok" 6 run -m 2x128/g4x1l "${small[@]}"
expect 0 "$ok" 3 run -m latent512+64/g20x1l "${small[@]}" --kv-format bf16,q8_0,nvfp4
expect 0 "$ok" 2 run -m 1x64w50/g8x1l "${small[@]}" --kv-format fp8,q4_0 --page-tokens 17
expect 0 "$ok" 1 run -m 1x256/g16x1l "${small[@]}" --kv-format q8_0/q4_0 --lengths mixed
expect 0 '"kernel":"simple".*"status":"ok"' 2 run -m 1x80/g2x1l "${small[@]}" \
    --kv-format bf16,fp8_e5m2 --kernel simple
expect 0 '"kernel":"expand".*"status":"ok"' 2 run -m 1x128/g2x1l "${small[@]}" \
    --kv-format q4_0,mxfp4 --kernel expand
expect 0 '"status":"ok"' 1 run -m gpt-oss-20b --tokens 20 --seqs 1 --samples 1 --kv-format nvfp4
# What mma cannot do another kernel does, loudly; asked for by name it is refused.
expect 0 '"kernel":"simple".*"reason":"kernel simple, not mma: .*80/80' 1 run -m 1x80/g2x1l \
    "${small[@]}" --kv-format bf16
said 'kernel simple, not mma'
expect 2 '"status":"refused"' 1 run -m 1x80/g2x1l "${small[@]}" --kv-format bf16 --kernel mma
said 'not built for head dims 80/80'
# Every kind of group: latents and their index in DeepSeek's records, pooled entries, states.
cat >kinds.json <<'JSON'
{"name": "kinds", "source": "a test", "groups": [
  {"kind": "latent", "layers": 2, "query_heads": 16, "latent_dim": 512, "rope_dim": 64},
  {"kind": "index", "layers": 2, "tokens_per_entry": 1, "key_dim": 128, "top_k": 32},
  {"kind": "state", "layers": 1, "family": "gated_delta_net", "heads": 2, "state_rows": 16,
   "state_cols": 32, "conv_channels": 48, "conv_taps": 3}]}
JSON
cat >pooled.json <<'JSON'
{"name": "pooled", "source": "a test", "groups": [
  {"kind": "compressed", "layers": 1, "query_heads": 16, "entry_dim": 512, "tokens_per_entry": 4},
  {"kind": "index", "layers": 1, "tokens_per_entry": 4, "key_dim": 128, "top_k": 16},
  {"kind": "window", "layers": 1, "query_heads": 16, "kv_heads": 1, "k_dim": 512, "v_dim": 0,
   "window_tokens": 32}]}
JSON
expect 0 '"kernel":"mma".*"status":"ok"' 3 run -m kinds.json "${small[@]}" \
    --kv-format bf16,q8_0,nvfp4
expect 0 '"kernel":"simple".*"status":"ok"' 1 run -m kinds.json "${small[@]}" \
    --kv-format fp8_ds_mla_656
expect 0 '"status":"ok"' 2 run -m pooled.json "${small[@]}" --kv-format fp8_ds_mla_584,q4_0
expect 0 '"status":"ok"' 7 fill -m 2x64/g8 --tokens 100 --kv-format nvfp4
expect 0 '"level":"until full: seqs",.*"count":2,' 1 fill -m 2x64/g8 --tokens 100 --kv-format nvfp4 \
    --until-full seqs --budget 140kB --weights 3kB

# Circumstances: without NVML, and with one that answers nothing or nonsense, rows are whole and say no
# more than is known.
unknown='"clocks":"sm counted 1500 to 1500 MHz","temperature":null,"power_w":null,"energy_j":null,'
unknown+='"throttle_reasons":null,"other_processes":null,"other_process_bytes":null,'
unknown+='"other_load_percent":null,"status":"ok","reason":null}$'
row=(run -m 1x128/g4x1l "${small[@]}" --kv-format bf16)
expect 0 "$unknown" 1 "${row[@]}"
export KVGAUGE_FAKE_NVML
for mood in unsupported nonsense init_fails lost; do
    KVGAUGE_NVML=$nvml KVGAUGE_FAKE_NVML=$mood expect 0 "$unknown" 1 "${row[@]}"
done
number='[0-9.e+-]*'
known='"clocks":"sm 1980 MHz, memory 2619 MHz, sm counted 1500 to 1500 MHz","temperature":55,'
known+="\"power_w\":$number,\"energy_j\":$number,"
KVGAUGE_NVML=$nvml KVGAUGE_FAKE_NVML=good expect 0 "$known\"throttle_reasons\":\[\"application clocks \
setting\"\],\"other_processes\":2,\"other_process_bytes\":3221225472,.*\"reason\":null}" 1 "${row[@]}"
KVGAUGE_NVML=$nvml KVGAUGE_FAKE_NVML=hot expect 0 "$known\"throttle_reasons\":\[\"power cap\".*\"status\":\
\"ok\",\"reason\":\"throttled: power cap, thermal slowdown, hardware thermal slowdown\"}" 1 "${row[@]}"
said 'throttled: power cap'

# A fault is a wrong row without speed and exit code 1; what cannot run is said.
wrong='"status":"wrong"'
export KVGAUGE_REMOTE_FAULT
KVGAUGE_REMOTE_FAULT=output expect 1 "$wrong" 1 run -m 1x128/g4x1l "${small[@]}" --kv-format bf16
KVGAUGE_REMOTE_FAULT=code expect 1 "$wrong" 1 run -m 1x128/g4x1l "${small[@]}" --kv-format nvfp4
said 'not stored as its format makes it'
KVGAUGE_REMOTE_FAULT=idle expect 1 "$wrong" 1 run -m 1x128/g4x1l "${small[@]}" --kv-format q8_0
KVGAUGE_REMOTE_FAULT=launch expect 1 "$wrong" 1 run -m 1x128/g4x1l "${small[@]}" \
    --kv-format bf16
said 'cudaLaunchKernel: planted'
KVGAUGE_REMOTE_FAULT=memory expect 2 '"status":"out_of_memory"' 1 run -m 1x128/g4x1l \
    "${small[@]}" --kv-format bf16
said 'bytes were asked'

[ $failed -eq 0 ] && printf 'all cases as expected\n'
exit $((failed > 0))
