#!/bin/sh
# Makes what the Makefile's commands need, and does nothing where that is there already and still current.
#   ./setup.sh environment EXTRA...   .venv with the package (editable) and these extras of pyproject.toml
#   ./setup.sh page                   the page, built into frontend/dist
#   ./setup.sh npm ARGUMENT...        npm in frontend/, its packages installed, with a Node that is new enough
# Needs Python 3.11 or newer (PYTHON=... names one); takes Node from PyPI where the PATH has none.
set -eu
cd "$(dirname "$0")"

say() { printf '== %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# --- Python ---------------------------------------------------------------------------------------

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer with venv was found (${PYTHON:-python3, python3.11 ... python3.14}). Install one
       (Debian, Ubuntu: apt install python3 python3-venv; Fedora: dnf install python3; macOS: brew install python),
       or name one: PYTHON=/path/to/python3.12 make ..."
}

environment() {
    # The folder is part of it: a virtual environment does not survive being moved.
    wanted="$(cat pyproject.toml constraints.txt | cksum) $PWD"
    if [ "$(sed 's/^[^ ]* [^ ]* //' .venv/.made-from 2>/dev/null)" != "$PWD" ] || ! .venv/bin/python -c '' 2>/dev/null; then
        python=$(find_python)
        say "making .venv with $("$python" --version)"
        rm -rf .venv
        "$python" -m venv .venv
        printf '0 0 %s\n' "$PWD" >.venv/.made-from
        : >.venv/.extras
    fi
    missing=
    for extra in "$@"; do
        grep -qx "$extra" .venv/.extras || missing=1
    done
    [ -z "$missing" ] && [ "$(cat .venv/.made-from)" = "$wanted" ] && return
    extras=$( (cat .venv/.extras && printf '%s\n' "$@") | sort -u | tr '\n' ' ')
    say "installing Python packages: ${extras% } (the first time this takes some minutes)"
    .venv/bin/python -m pip install --quiet --prefer-binary -c constraints.txt -e ".[$(echo $extras | tr ' ' ,)]"
    printf '%s\n' $extras >.venv/.extras
    printf '%s\n' "$wanted" >.venv/.made-from
}

# The data plane in C, where there is a compiler: the machine's, or that of the extra `compiler`.
data_plane() {
    sources=$(cat engine/transport/in_c/*.[ch] engine/transport/in_c/build.py | cksum)
    [ "$(cat .venv/.data-plane-made-from 2>/dev/null)" = "$sources" ] && return
    say "compiling the data plane"
    .venv/bin/python -m engine.transport.in_c >/dev/null || say "it was not compiled; messages go the slower way, through Python"
    printf '%s\n' "$sources" >.venv/.data-plane-made-from
}

# --- Node and the page ----------------------------------------------------------------------------

node_is_new_enough() {
    command -v npm >/dev/null && node -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit(major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19) ? 0 : 1);
    ' 2>/dev/null
}

node_on_path() {
    node_is_new_enough && return
    PATH="$PWD/.venv/bin:$PATH"
    node_is_new_enough && return
    say "no Node of 20.19+, 22.12+ or newer than 22 on the PATH: taking it from PyPI"
    environment server node
    node_is_new_enough || fail "Node $(node --version 2>/dev/null) from .venv/bin does not work here; install Node 22 LTS with npm"
}

packages() {
    node_on_path
    lock="$(cat frontend/package.json frontend/package-lock.json | cksum) $(node --version)"
    [ "$(cat frontend/node_modules/.made-from 2>/dev/null)" = "$lock" ] && return
    say "installing the front end's packages"
    (cd frontend && npm ci --no-audit --no-fund --loglevel=error)
    printf '%s\n' "$lock" >frontend/node_modules/.made-from
}

# A checksum of all files of frontend/ but the outputs.
page_sources() {
    find frontend -type d \( -name node_modules -o -name dist -o -name coverage -o -name test-results \) -prune \
        -o -type f -exec cksum {} + | LC_ALL=C sort | cksum
}

page() {
    [ -f frontend/dist/index.html ] && [ "$(cat .venv/.page-made-from 2>/dev/null)" = "$(page_sources)" ] && return
    packages
    say "building the page"
    (cd frontend && npm run --silent build)
    # Summed up after the build, which writes the API's types beside the sources.
    page_sources >.venv/.page-made-from
}

command=${1:-}
[ $# -gt 0 ] && shift
case "$command" in
    environment) environment "$@"; data_plane ;;
    page) environment server parquet; data_plane; page ;;
    npm) environment server; packages; cd frontend; exec npm "$@" ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
