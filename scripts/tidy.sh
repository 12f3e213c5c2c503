#!/bin/bash
# clang-tidy over what differs from a base commit (default: nothing committed yet, HEAD), or over all sources.
#   scripts/tidy.sh [--all | BASE]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
build release mhc_plain  # makes the generated headers and compile_commands.json

if [ "${1:-}" = --all ]; then
  files=$(git ls-files -co --exclude-standard 'src/*.cc' 'tools/*.cc' 'examples/*.cc')
else
  files=$(git diff --name-only --diff-filter=d "${1:-HEAD}" -- '*.cc'; git ls-files -o --exclude-standard '*.cc')
fi
# The files of an ISA say nothing that the scalar ones don't.
files=$(grep -vE '_(avx2|avx512|avx512bf16)\.cc$' <<<"$files" || true)
# Flags of g++ that clang doesn't know are no finding.
say "clang-tidy: $(wc -w <<<"$files") files"
xargs -r -n 1 -P "$(nproc)" .venv/bin/clang-tidy -p build/release --quiet \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error <<<"$files" \
  2> >(grep -vE 'warnings? (generated|treated)|^Suppressed|^Use -' >&2 || true)
