#!/usr/bin/env bash
# shellcheck disable=SC2016 # the words of `check ... eval` are for later
# `mpirun -np N kvgauge run --tp N` on the CPU: bytes per rank as predicted, one row with everybody's
# figures, and above all that ranks end together, whatever happens to one of them. Every mpirun runs
# under timeout: a hang is exit code 124.
#   ranks_test.sh PROGRAM [ALLOC_FAIL POWERCAP]    the libraries of tests/alloc_fail and powercap.c
set -u
program=$1 alloc_fail=${2:-} powercap=${3:-}
here=$(dirname "${BASH_SOURCE[0]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
check() { # WORDS COMMAND...
    local words=$1
    shift
    "$@" >"$work/said" 2>&1 || {
        printf 'FAILED: %s\n' "$words"
        head -c 3000 "$work/said" "$work/err"
        failed=$((failed + 1))
    }
}

# Started by a launcher whose ranks it cannot see: refused at once, with or without MPI.
for name in OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS; do
    env "$name=2" timeout 60 "$program" run --tp 2 -m 2x64/g4x2l >"$work/out" 2>"$work/err"
    check "$name alone: exit code 3" [ $? -eq 3 ]
    check "$name alone: says so" grep -q '^kvgauge: 2 processes were started together' "$work/err"
done
# The shell of `srun --pty`, or of a job, is no rank.
env SLURM_STEP_NUM_TASKS=2 SLURM_PTY_PORT=1 SLURM_NTASKS=8 timeout 60 "$program" models >/dev/null 2>&1
check 'a shell of Slurm: one rank' [ $? -eq 0 ]

if "$program" --version | grep -q '^MPI: none'; then
    check 'without MPI: says what to install' grep -q 'install libopenmpi-dev and openmpi-bin' "$work/err"
    [ $failed -eq 0 ] || exit 1
    echo 'skipped: the program is built without MPI: several ranks'
    exit 77
fi
for needed in mpirun python3; do
    command -v $needed >/dev/null || { echo "skipped: no $needed here: several ranks"; exit 77; }
done

# As options these have other names in other launchers.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# The words of RANK1 go to rank 1 alone, and RANK1_ENV is its environment's; ALL_ENV is everyone's.
cat >"$work/rank" <<'SHELL'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
echo $$ >"$WORK/pid$rank"
[ "$rank" = 1 ] || exec env $ALL_ENV "$@"
exec env $ALL_ENV $RANK1_ENV "$@" $RANK1
SHELL
chmod +x "$work/rank"
export RANK1='' RANK1_ENV='' ALL_ENV='' WORK=$work
ranks() { # N ARGUMENTS: sets code; rows in $work/out
    timeout "${RANKS_LIMIT_S:-120}" mpirun -np "$1" "$work/rank" "$program" "${@:2}" >"$work/out" 2>"$work/err"
    code=$?
}
rows() { python3 "$here/ranks_rows.py" "$work/out" "$@"; }
tiny=(--device cpu --llc 32MiB --tokens 100 --samples 2 --kv-format 'bf16,q8_0' -o jsonl)
count() { [ "$(wc -l <"$work/out")" -eq "$1" ]; }

# The acceptance case, small: KV heads split, every byte as predicted.
sizes=(--tp 2 --model qwen3-235b-a22b --tokens 70 --seqs 2 --kv-format 'bf16,nvfp4' -o jsonl)
"$program" predict "${sizes[@]}" >"$work/predicted"
ranks 2 run --device cpu "${sizes[@]}" --samples 3
check 'two ranks: exit code 0' [ $code -eq 0 ]
check 'two ranks: one row per format' count 2
for so in 'row["status"] == "ok" and row["ranks"] == row["tp"] == len(ranks) == 2' \
    '[rank["rank"] for rank in ranks] == [0, 1]' \
    'all(rank["formula_bytes"] == predicted["total_bytes"] for rank in ranks)' \
    'row["paged_bytes"] == predicted["paged_bytes"]' \
    'all(rank["pool_bytes"] == predicted["paged_bytes"] + row["page_table_bytes"] + row["tensor_scale_bytes"] for rank in ranks)' \
    'all(rank["kv_read_bytes"] == predicted["total_bytes"] for rank in ranks)' \
    'row["replicated_bytes"] == 0' \
    'row["reduce_bytes"] == 4 * 94 * 2 * 64 * 128' \
    'row["reduce_ns"]["n"] == row["step_ns"]["n"] == len(row["samples_ns"]) == 3' \
    'row["reduce_ns"]["min"] > 0 and all(rank["reduce_ns"] > 0 for rank in ranks)' \
    'row["attend_ns"]["median"] == ranks[row["slowest_rank"]]["attend_ns"]' \
    'row["step_ns"]["median"] == ranks[row["slowest_rank"]]["step_ns"]' \
    'ranks[row["slowest_rank"]]["kv_ns"] == max(rank["kv_ns"] for rank in ranks)' \
    'all(rank["weights_ns"] is None for rank in ranks)' \
    'abs(row["kv_tokens_per_s"] * ranks[row["slowest_rank"]]["kv_ns"] * 1e-9 - 2) < 1e-6'; do
    check "two ranks: $so" rows "$work/predicted" "$so"
done

# What cannot be split is on every rank: latents, and one KV head.
ranks 2 run --tp 2 -m glm-4.7-flash "${tiny[@]}"
check 'a latent: ok, all of it twice' rows - \
    'row["status"] == "ok" and row["replicated_bytes"] == row["formula_bytes"] > 0'
ranks 2 run --tp 2 -m 1x64/g4x2l "${tiny[@]}"
check 'one KV head: ok, twice' rows - \
    'row["status"] == "ok" and row["replicated_bytes"] == row["formula_bytes"] > 0'
ranks 3 run --tp 3 -m 3x64/g3x2l "${tiny[@]}"
check 'three ranks: ok' rows - \
    'row["status"] == "ok" and row["ranks"] == len(ranks) == 3 and row["replicated_bytes"] == 0'
ranks 2 run --tp 2 -m qwen3.6-35b-a3b "${tiny[@]}" --tokens 30
check 'state: ok, split' rows - 'row["status"] == "ok" and row["replicated_bytes"] == 0'
"$program" run --tp 2 -m 2x64/g4x2l "${tiny[@]}" >"$work/out" 2>"$work/err"
check 'one rank alone: null' rows - \
    'row["ranks"] is row["per_rank"] is row["reduce_ns"] is row["slowest_rank"] is row["replicated_bytes"] is None'

ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}" --weights-read 8MB
if [ $code -ne 3 ]; then
    check 'weights: each rank has its time' rows - 'all(rank["weights_ns"] > 0 for rank in ranks)'
    check 'weights: the row has that of the slowest' rows - \
        'row["weights_ns"]["median"] == ranks[row["slowest_rank"]]["weights_ns"]'
else
    echo 'skipped: no BLAS library here: the time of weights'
fi

# Rank 1 reads in a way that is many times slower, and not quite as exact or more so.
# Five samples: one that others held up is not the median.
several=(--tp 2 -m gpt-oss-20b --device cpu --llc 32MiB --tokens 1k --samples 5 --kv-format 'bf16,q8_0' -o jsonl)
errors() { grep -o '"kernel_error":[^,]*' "$work/out" | cut -d: -f2; }
for kernel in simple tiled; do
    ranks 2 run "${several[@]}" --kernel $kernel
    errors >"$work/$kernel"
done
largest=$(paste "$work/simple" "$work/tiled" | awk '{ print ($1 > $2 ? $1 : $2) }')
smallest=$(paste "$work/simple" "$work/tiled" | awk '{ print ($1 < $2 ? $1 : $2) }')
check 'kernels differ in their errors' [ "$largest" != "$smallest" ]
RANK1='--kernel simple' ranks 2 run "${several[@]}" --kernel tiled
check 'errors are the largest, of rank 1' [ "$(errors)" = "$largest" ]
check 'other ranks are no load by others' rows - 'row["other_load_percent"] is None'
check 'a slow rank 1: it is the slowest' rows - 'row["slowest_rank"] == 1'
check 'a slow rank 1: the times of groups are its' rows - \
    'sum(group["ns"] for group in row["groups"]) ** 2 > ranks[0]["kv_ns"] * ranks[1]["kv_ns"]'
RANK1='--kernel tiled' ranks 2 run "${several[@]}" --kernel simple
check 'errors are the largest, of rank 0' [ "$(errors)" = "$largest" ]
check 'a slow rank 0: it is the slowest' rows - 'row["slowest_rank"] == 0'
check 'a slow rank 0: the times of groups are its' rows - \
    'sum(group["ns"] for group in row["groups"]) ** 2 > ranks[0]["kv_ns"] * ranks[1]["kv_ns"]'

# One package, which every rank reads.
if [ -n "$powercap" ]; then
    RANK1=
    mkdir -p "$work/powercap/intel-rapl:0"
    ALL_ENV="LD_PRELOAD=$powercap POWERCAP_FOLDER=$work/powercap"
    ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
    check 'a counter for all: it counts once' rows - '70 < row["power_w"] < 140 and row["energy_j"] > 0'
    RANK1_ENV="POWERCAP_FOLDER=$work/none" ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
    check 'rank 1 sees no counter: not known' rows - 'row["power_w"] is row["energy_j"] is None'
    ALL_ENV='' RANK1_ENV=''
fi

# Refused by all.
ranks 2 run --tp 4 -m 4x64/g4x2l "${tiny[@]}"
check 'another --tp: exit code 2, both named' eval \
    '[ $code -eq 2 ] && grep -q "^kvgauge: --tp 4: 2 ranks were started" "$work/err"'
check 'another --tp: said once' [ "$(grep -c '^kvgauge: --tp' "$work/err")" -eq 1 ]
ranks 2 run -m 4x64/g4x2l "${tiny[@]}"
check 'no --tp: exit code 2' [ $code -eq 2 ]
for command in fill predict; do
    ranks 2 $command --tp 2 -m 2x64/g4x2l
    check "$command: exit code 2" eval '[ $code -eq 2 ] && grep -q "only kvgauge run" "$work/err"'
done
ranks 2 run --tp 2 -m 3x64/g4x2l "${tiny[@]}"
check 'heads that do not divide: rows' rows - 'row["status"] == "refused" and row["ranks"] == 2'

# One rank fails, all end.
RANK1='--kernel none' ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
check 'rank 1 has no such kernel: exit code 2' eval \
    '[ $code -eq 2 ] && grep -q "^kvgauge: rank 1: --kernel none" "$work/err"'
RANK1='--nonsense' ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
check 'rank 1 was given nonsense: exit code 2' eval \
    '[ $code -eq 2 ] && grep -q "^kvgauge: rank 1: --nonsense" "$work/err"'
RANK1='--tokens 200' ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
check 'rank 1 has other cases: exit code 2' eval \
    '[ $code -eq 2 ] && grep -q "^kvgauge: the ranks were given different cases" "$work/err"'
# What only one was told may not leave the others waiting.
for told in --list '--weights-read 8MB' '--weights-format f32 --weights-read 16MB'; do
    RANK1=$told ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
    check "rank 1 alone has $told: exit code 2, not $code" eval \
        '[ $code -eq 2 ] && grep -q "^kvgauge: the ranks were given different cases" "$work/err"'
done
RANK1=--help ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
check "rank 1 asks for help: said once, not $code" eval \
    '[ $code -eq 0 ] && [ "$(grep -c "^usage: kvgauge run" "$work/out")" -eq 1 ]'
RANK1='--budget 40kB' ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
check 'rank 1 has less memory: the smaller pool runs' eval \
    '[ $code -eq 0 ] && rows - "row[\"status\"] == (\"ok\" if row[\"k_format\"] == \"q8_0\" else \"out_of_memory\")"'
RANK1='--budget 70kB' ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
check 'rank 1 has room for one pool at a time: so have all' eval \
    '[ $code -eq 0 ] && count 2 && rows - "row[\"status\"] == \"ok\" and row[\"per_rank\"] is not None"'
if [ -n "$alloc_fail" ]; then
    RANK1=
    seen=0
    for ((nth = 1; nth < 400; nth += 13)); do
        rm -f "$work/report"
        RANK1_ENV="ALLOC_FAIL_OWN=1 ALLOC_FAIL_NTH=$nth ALLOC_FAIL_REPORT=$work/report LD_PRELOAD=$alloc_fail" \
            ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}"
        [ -e "$work/report" ] || break
        check "rank 1 has no memory for allocation $nth: ends (exit code $code)" [ $code -lt 124 ]
        grep -hq 'rank 1: ' "$work/out" "$work/err" && seen=$((seen + 1))
    done
    check 'rank 1 has no memory: was tried to the end' eval '[ $nth -gt 20 ] && [ $nth -lt 400 ]'
    check 'rank 1 has no memory: it is named' [ $seen -gt 2 ]
fi

# Files are rank 0's; what is there is there for all.
RANK1_ENV=
ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}" --resume "$work/saved"
check 'a file: two rows' [ "$(wc -l <"$work/saved")" -eq 2 ]
ranks 2 run --tp 2 -m 2x64/g4x2l "${tiny[@]}" --tokens 200 --resume "$work/saved"
check 'the file again: what was missing' eval '[ $code -eq 0 ] && count 2 && [ "$(wc -l <"$work/saved")" -eq 4 ]'
check 'the file again: says so' grep -q '^kvgauge: 2 rows were there already' "$work/err"

KVGAUGE=$program timeout "${RANKS_LIMIT_S:-120}" "$here/../../scripts/repeat.sh" "$work/saved" 4 -o jsonl \
    >"$work/out" 2>"$work/err"
check 'a row again: by as many ranks' eval 'count 1 && rows - "row[\"ranks\"] == 2 and row[\"tokens\"] == 200"'

# Interrupted: one rank, and then the launcher.
interrupted() { # FILE WITH THE PID: once the first case's rows are out
    rm -f "$work"/pid* "$work"/halfway*
    timeout "${RANKS_LIMIT_S:-120}" mpirun -np 2 "$work/rank" "$program" run --tp 2 -m 2x64/g4x2l \
        --device cpu --llc 32MiB --tokens 64,32k --seqs 8 --samples 300 --kv-format bf16,q8_0 -o jsonl \
        --save "$work/halfway" \
        >"$work/out" 2>"$work/err" &
    local launcher=$!
    for ((i = 0; i < 600; i++)); do
        [ -e "$work/halfway" ] && [ "$(wc -l <"$work/halfway")" -ge 2 ] && break
        sleep 0.1
    done
    if [ "$1" = launcher ]; then
        pkill -INT -P $launcher
    else
        kill -INT "$(cat "$work/$1")"
    fi
    wait $launcher
    code=$?
}
interrupted pid1
check "rank 1 is interrupted: exit code 130 ($code)" [ $code -eq 130 ]
check 'rank 1 is interrupted: whole rows' eval \
    'count 4 && rows - "row[\"status\"] == (\"ok\" if row[\"tokens\"] == 64 else \"interrupted\")"'
check 'rank 1 is interrupted: the file is the same' cmp "$work/out" "$work/halfway"
interrupted launcher
check "the launcher is interrupted: ends ($code)" [ $code -ne 124 ]
check 'the launcher is interrupted: not 0' [ $code -ne 0 ]
check 'the launcher is interrupted: whole rows' eval 'cp "$work/halfway" "$work/out"; rows - "row[\"status\"] in (\"ok\", \"interrupted\")"'

[ $failed -eq 0 ] && printf 'all as expected\n'
exit $((failed > 0))
