#!/bin/sh
# Before anything is built: does this machine have Python >= 3.11 with venv, its headers, and a C compiler?
# Says in one sentence what is missing and how to get it; headers, which "Python with pip and venv" need not bring,
# are installed when we are root on a Debian-like machine. Reads: PYTHON, CC.
set -eu
python=${PYTHON:-python3}

fail() {
    echo "husk: $1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "there is no '$python'; install Python 3.11 or newer (Debian: apt-get install python3 python3-venv), or set PYTHON."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "'$python' is $("$python" -V 2>&1), but husk needs 3.11 or newer; set PYTHON to a newer one."
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "'$python' cannot make virtual environments; install its venv module (Debian: apt-get install python3-venv)."
command -v "${CC:-cc}" >/dev/null 2>&1 ||
    fail "there is no C compiler '${CC:-cc}'; install one (Debian: apt-get install gcc libc6-dev), or set CC."

# Asks the compiler too: a header in its own search path is as good as one where Python says it is.
has_header() {
    include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    echo '#include <Python.h>' | "${CC:-cc}" -I"$include" -E - >/dev/null 2>&1
}
if ! has_header; then
    package=$("$python" -c 'import sys; print("python%d.%d-dev" % sys.version_info[:2])')
    # Only for Debian's own Python: headers of another one would not be looked for in /usr/include.
    if [ "${include#/usr/include/}" != "$include" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "husk: Python.h is missing: installing $package" >&2
        export DEBIAN_FRONTEND=noninteractive
        timeout 300 apt-get -qq update >/dev/null || true
        timeout 300 apt-get -qq install -y --no-install-recommends "$package" >/dev/null || true
    fi
    has_header || fail "Python.h of '$python' is missing; install its headers (Debian: apt-get install $package)."
fi
