#!/bin/bash
# Upload a file of schedules, one JSON object per line. Nobody holds all of it in memory. Needs curl 7.76 and jq.
# Start: API=http://127.0.0.1:9180/api/v1 TOKEN=zs_… bash upload.sh reminders.ndjson
# Exit codes: 0: all rows are scheduled; 1: rows were refused, all others are scheduled; 2: the upload failed.
set -euo pipefail
results=$(mktemp)
trap 'rm -f "$results"' EXIT

# The token goes through a pipe: arguments of a program are visible to all users of the machine.
if ! curl --silent --show-error --fail-with-body --request POST --upload-file "$1" \
  --header @<(printf 'Authorization: Bearer %s\nContent-Type: application/x-ndjson\n' "$TOKEN") \
  "$API/schedules:batch" >"$results"; then
  cat "$results" >&2
  exit 2
fi

jq -r 'select(.error) | "row \(.row // "?"): \(.error.detail)"' "$results" >&2
rows=$(grep -c '[^[:space:]]' "$1" || true)
answered=$(jq 'select(has("row")).row' "$results" | wc -l)
refused=$(jq 'select(.error).row' "$results" | wc -l)
if [ "$answered" -ne "$rows" ]; then
  echo "$answered of $rows rows were answered; upload the file again: rows with an id are not scheduled twice" >&2
  exit 2
fi
echo "$((rows - refused)) of $rows rows are scheduled"
[ "$refused" -eq 0 ] || exit 1
