#!/bin/sh
# Makes .venv for the Makefile, or sees that it is still right.
#
#   sh scripts/setup.sh run        what skyband needs to run, Spark included
#   sh scripts/setup.sh dev        that, and what its tests and checks need
#   sh scripts/setup.sh run java   … and stop early, before any download, if there is no Java for Spark
#
# Plain POSIX shell, because it has to speak clearly on machines that have no Python, or an old one.
# Whatever is missing gets one sentence that says what to do. The stamp in .venv names the requirements
# that were installed and the Python that installed them, so a second call has nothing to do but compare.
set -u
cd "$(dirname "$0")/.." || exit 1

kind=${1:-dev}
java=${2:-}
venv=.venv
oldest=11
newest=15

fail() {
    echo "skyband: $1" >&2
    exit 1
}

# Prints "version path" if $1 starts, is Python 3.11 … 3.15 and can make a venv; else notes why not.
# A name on the path proves nothing: pyenv leaves shims for versions that aren't switched on.
try() {
    found=$("$1" -c 'import sys; print("%d %d %s" % (sys.version_info[0], sys.version_info[1], sys.executable))' 2>/dev/null) || return 1
    major=${found%% *}; rest=${found#* }; minor=${rest%% *}; path=${rest#* }
    if [ "$major" != 3 ] || [ "$minor" -lt $oldest ] || [ "$minor" -gt $newest ]; then
        wrong="${wrong:-$major.$minor ($path)}"
        return 1
    fi
    if ! "$1" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        bare="${bare:-$major.$minor}"
        return 1
    fi
    version="$major.$minor"
    return 0
}

find_python() {
    wrong=; bare=
    if [ -n "${PYTHON:-}" ]; then
        try "$PYTHON" && return
        [ -n "$bare" ] && no_venv
        [ -n "$wrong" ] && fail "PYTHON=$PYTHON is Python ${wrong%% *}, and skyband needs Python 3.$oldest to 3.$newest: name another one."
        fail "PYTHON=$PYTHON is not a Python that starts: name the path of a Python 3.$oldest to 3.$newest."
    fi
    for candidate in python3 python3.13 python3.12 python3.14 python3.11 python3.15 python \
        "${HOME:-/nowhere}"/.pyenv/versions/3.1[1-5]*/bin/python /opt/homebrew/bin/python3 /usr/local/bin/python3 /usr/bin/python3; do
        try "$candidate" && return
    done
    [ -n "$bare" ] && no_venv
    [ -n "$wrong" ] && fail "the only Python here is $wrong, and skyband needs Python 3.$oldest to 3.$newest: install one, or name it with 'make … PYTHON=/path/to/python3.12'."
    fail "there is no Python here: install Python 3.$oldest to 3.$newest, or name it with 'make … PYTHON=/path/to/python3.12'."
}

no_venv() {
    fail "Python $bare has no ensurepip to make a venv with: run 'apt-get install python$bare-venv' (Debian, Ubuntu), or name another Python with 'make … PYTHON=/path/to/python3'."
}

check_java() {
    [ "$java" = java ] || return 0
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=src "$1" -m skyband.spark.session.java >/dev/null || exit 1
}

install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" ||
        fail "pip could not install what skyband needs (its own words are above): check the network and the disk, then run the same command again."
}

# Does the venv run the Python that the user named? Any will do if none was named.
same_python() {
    [ -z "${PYTHON:-}" ] && return 0
    [ "$("$PYTHON" -c "$ask_version" 2>/dev/null)" = "$("$venv/bin/python" -c "$ask_version" 2>/dev/null)" ]
}

# What `dev` installed is enough for `run` as well.
stamped() {
    for stamp in "$venv/skyband-$kind.stamp" "$venv/skyband-dev.stamp"; do
        [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return 0
    done
    return 1
}

ask_version='import sys; print("%d.%d" % sys.version_info[:2])'
wanted="$(cat pyproject.toml requirements-build.txt requirements.txt requirements-dev.txt | cksum) $(pwd)"
if stamped && "$venv/bin/python" -c '' 2>/dev/null && same_python; then
    check_java "$venv/bin/python"
    echo "skyband: .venv is ready."
    exit 0
fi

find_python
check_java "$path"
echo "skyband: setting up .venv with Python $version ($path); the first time takes a few minutes (Spark is 450 MB)."
# A venv of another Python is thrown away; one of the same Python is only brought up to date.
if [ "$("$venv/bin/python" -c "$ask_version" 2>/dev/null)" != "$version" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    "$path" -m venv "$venv" || fail "$path could not make a venv in $(pwd)/$venv (its own words are above): see that the folder can be written to."
fi
rm -f "$venv"/skyband-*.stamp
export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0
install --require-hashes -r requirements-build.txt
# PySpark is built from its source archive, with the setuptools just pinned and not with whatever is newest today.
# Bytecode comes with the first import of what is used: to compile all of Spark's modules takes half a minute.
dev=; [ "$kind" = dev ] && dev="-r requirements-dev.txt"
# shellcheck disable=SC2086
install --no-compile --no-build-isolation --require-hashes -r requirements.txt $dev
install --no-build-isolation --no-deps --editable .
echo "$wanted" >"$venv/skyband-$kind.stamp"
echo "skyband: .venv is ready."
