#!/usr/bin/env bash
# The first step of action.yml: installs what BITFOLD_PACKAGE names, if anything.
set -euo pipefail
if [[ -n ${BITFOLD_PACKAGE:-} ]]; then
  python3 -m pip install --quiet --disable-pip-version-check "$BITFOLD_PACKAGE"
fi
if ! command -v bitfold >/dev/null; then
  echo "::error title=bitfold check::there is no bitfold on the PATH: give a wheel as the input 'package', or install it in a step before"
  exit 2
fi
