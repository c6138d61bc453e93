#!/usr/bin/env bash
# The second step of action.yml: `bitfold check` by the variables BITFOLD_GOLDEN, _FILES, _ULPS and _JUNIT. What differs becomes an
# annotation of the run, and its whole output the summary.
set -euo pipefail
arguments=()
[[ -z ${BITFOLD_ULPS:-} ]] || arguments+=("--ulps=$BITFOLD_ULPS")
[[ -z ${BITFOLD_JUNIT:-} ]] || arguments+=("--junit=$BITFOLD_JUNIT")
files=()
while IFS= read -r pattern; do
  [[ -n $pattern ]] || continue
  mapfile -t found < <(compgen -G "$pattern" || true)
  if ((${#found[@]} == 0)); then
    echo "::error title=bitfold check::files: nothing is called $pattern"
    exit 2
  fi
  files+=("${found[@]}")
done <<<"${BITFOLD_FILES:-}"
status=0
output=$(bitfold check "${arguments[@]}" -- "$BITFOLD_GOLDEN" "${files[@]}" 2>&1) || status=$?
echo "$output"
# Lines of arrays and files; those below them are of the line above.
grep -E '^(moved|changed|missing|new|bitfold:) ' <<<"$output" | sed 's/%/%25/g; s/^/::error title=bitfold check::/' || true
if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
  printf '### bitfold check\n\n```\n%s\n```\n' "$output" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
