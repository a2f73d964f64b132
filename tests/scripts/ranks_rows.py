"""ranks_rows.py FILE PREDICTED EXPRESSION: whether every row of FILE (JSON lines) fulfils EXPRESSION,
in which `row` is the row, `ranks` its per_rank list and `predicted` the row of PREDICTED (the JSON
lines of `kvgauge predict`, or -) with the same formats and length. A file without rows fulfils
nothing."""

import json
import sys

path, predicted_path, expression = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    rows = [json.loads(line) for line in file]
predictions = {}
if predicted_path != "-":
    with open(predicted_path, encoding="utf-8") as file:
        for line in file:
            found = json.loads(line)
            predictions[found["k_format"], found["v_format"], found["tokens"]] = found
bad = [
    row
    for row in rows
    if not eval(  # the test's own words
        expression,
        {
            "row": row,
            "ranks": row["per_rank"],
            "predicted": predictions.get((row["k_format"], row["v_format"], row["tokens"])),
        },
    )
]
for row in bad:
    print("not so:", expression, "in", json.dumps(row)[:3000])
sys.exit(0 if rows and not bad else 1)
