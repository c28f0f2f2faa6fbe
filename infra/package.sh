#!/usr/bin/env bash
# Builds the zip that the Lambda function runs: lastbeat, lambda/, and the wheels that requirements.txt and
# requirements-fast.txt pin by their hashes, compiled. The same checkout gives the same bytes. Needs pip or uv, and the network or their cache.
#
#   infra/package.sh                          arm64, python3.13, as infra/template.yaml has them by default
#   infra/package.sh --architecture x86_64    for the parameter Architecture=x86_64
#   infra/package.sh --runtime python3.12     for the parameter Runtime=python3.12
#   infra/package.sh --signals cluster.yaml   with catalogues of your own, as LASTBEAT_SIGNALS names them: they are
#                                             checked and compiled, and in the zip cluster.yaml is called cluster
#   infra/package.sh --out FILE               elsewhere than build/lambda.zip, which the template deploys
#
# PYTHON=… names the interpreter (3.10 or newer) that builds; else .venv's, else python3. For --signals it needs PyYAML
# and pydantic, which the zip does not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
architecture=arm64 runtime=python3.13 out="$root/build/lambda.zip" signals=

stop() { echo "infra/package.sh: $1" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --architecture|--runtime|--signals|--out) [ $# -ge 2 ] || stop "$1 needs a value" ;;
    *) stop "there is no option '$1'; --help lists them" ;;
  esac
  case "$1" in
    --architecture) architecture=$2 ;;
    --runtime) runtime=$2 ;;
    --signals) signals=$2 ;;
    --out) out=$2 ;;
  esac
  shift 2
done
case "$architecture" in
  arm64) machine=aarch64 ;;
  x86_64) machine=x86_64 ;;
  *) stop "--architecture $architecture is none that Lambda has; use arm64 or x86_64" ;;
esac
case "$runtime" in
  python3.11|python3.12|python3.13|python3.14) version=${runtime#python} ;;
  *) stop "--runtime $runtime is none that this is built for; use python3.11, python3.12, python3.13 or python3.14" ;;
esac

python=${PYTHON:-}
if [ -z "$python" ]; then
  python=python3
  if [ -x "$root/.venv/bin/python" ]; then python="$root/.venv/bin/python"; fi
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || stop "$python is no Python from 3.10 on; name one with PYTHON=…"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Users' catalogues come first: what is wrong with them is said before anything is fetched.
compiled=
if [ -n "$signals" ]; then
  "$python" -c 'import yaml, pydantic' 2>/dev/null || stop "$python has no PyYAML or no pydantic, which --signals needs; name a Python that has both, as PYTHON=.venv/bin/python (make demo makes it)"
  compiled="$scratch/compiled.json"
  PYTHONPATH="$root/core" "$python" -m lastbeat.explain.signals.compiling --own "$signals" --out "$compiled"
fi
# obstore for arm64 asks for glibc 2.24, google-re2 for 2.26, or on x86_64 for 2.27. Lambda has 2.26 under python3.11 and
# 2.34 under the others; so there is no google-re2 for python3.11 on x86_64, and Python's own search reads the logs.
platforms=()
glibcs="manylinux2014 manylinux_2_24 manylinux_2_26"
wanted=(-r "$here/requirements.txt" -r "$here/requirements-fast.txt")
if [ "$version" != 3.11 ]; then
  glibcs="$glibcs manylinux_2_28"
elif [ "$machine" = x86_64 ]; then
  wanted=(-r "$here/requirements.txt")
fi
for glibc in $glibcs; do platforms+=(--platform "${glibc}_$machine"); done
if "$python" -m pip --version >/dev/null 2>&1; then
  "$python" -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes \
    --only-binary=:all: "${platforms[@]}" \
    --implementation cp --abi "cp${version/./}" --abi abi3 --abi none --python-version "$version" \
    --target "$scratch/zip" "${wanted[@]}"
elif command -v uv >/dev/null; then
  uv pip install --quiet --require-hashes --only-binary :all: --python-platform "$machine-manylinux_2_28" \
    --python-version "$version" --target "$scratch/zip" "${wanted[@]}"
else
  stop "$python has no pip, and there is no uv: install one of them"
fi
"$python" "$here/bundle.py" --root "$root" --stage "$scratch/zip" --version "$version" --compiled "$compiled" --out "$out"
