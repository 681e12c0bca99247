# Shared by the scripts that make packages. Sourced, never run.
#
# Everything is built in one root of Debian 12, so that a package is the same whatever machine makes it, and needs no newer C library
# than that. The root is made once and kept below the output directory, where it can be removed at any time.
# shellcheck shell=bash

set -euo pipefail

package_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$(dirname "$package_dir")")
# shellcheck source=contrib/debian.sh
. "$top/contrib/debian.sh"

version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$top/meson.build")
work=${CLOISTER_PACKAGE_DIR:-$top/build-packages} # the packages are in its directory `out`
out=$work/out
root=$work/root
deb=$out/cloister_${version}_amd64.deb
# The time of every file in a package: that of the release's entry in the changelog, for two builds of it to be the same.
SOURCE_DATE_EPOCH=$(date -d "$(sed -n 's/^ -- .*>  //p' "$package_dir/debian/changelog" | head -n 1)" +%s)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC

say() {
    printf '==> %s\n' "$*"
}

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

show_help() { # <arguments of the script…>
    if [ "${1:-}" = --help ]; then
        sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
        exit 0
    fi
}

need() { # <command> <Debian package>
    command -v "$1" >/dev/null || fail "there is no $1 here (Debian: apt install $2)"
}

# What is in the root: compilers and libraries, and what looks at the result.
build_packages=build-essential,debhelper,fakeroot,lintian,ccache,meson,ninja-build,pkg-config,libnng-dev,libmsgpack-dev,libcjson-dev
build_packages+=,libuv1-dev,libcurl4-openssl-dev,libarchive-dev,libmicrohttpd-dev,libyaml-dev,python3,libcurl3-gnutls,patchelf,python3-jsonschema,systemd,dh-apparmor

# Makes the root in which packages are built, unless it is there.
need_root() {
    local stamp
    [ "$(id -u)" -eq 0 ] || fail "the root in which packages are built takes root: sudo $0"
    [ "$(dpkg --print-architecture)" = amd64 ] || fail "packages are built on x86-64 only"
    need mmdebstrap mmdebstrap
    mkdir -p "$out"
    stamp=$(printf 'bookworm %s' "$build_packages")
    if [ ! -e "$root/made-for" ] || [ "$(cat "$root/made-for")" != "$stamp" ]; then
        say "making the root in which packages are built"
        rm -rf --one-file-system "$root"
        debian_make bookworm "$root" "$build_packages" --variant=minbase
        printf '%s\n' "$stamp" >"$root/made-for"
    fi
}

# Runs a command in that root, with processes and mounts of its own and no network. The compiler's cache is kept outside.
in_root() { # <directory in the root> <command…>
    local directory=$1
    shift
    mkdir -p "$work/ccache" "$root/ccache"
    # shellcheck disable=SC2016
    unshare --mount --pid --net --fork --kill-child=KILL -- bash -c '
        mount --bind "$1/ccache" "$2/ccache"
        mount -t proc proc "$2/proc"
        exec chroot "$2" env -i --chdir="$3" PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TZ=UTC \
            CCACHE_DIR=/ccache ${CCACHE_DISABLE:+CCACHE_DISABLE=1} SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" nice -n 10 "${@:4}"
    ' in-root "$work" "$root" "$directory" "$@"
}

# The tree of the archive of binaries, from which others are made as well.
tree_name=cloister-$version-linux-x86_64
tree=$work/$tree_name

need_deb() {
    [ -e "$deb" ] || "$package_dir/deb"
}

need_tree() {
    need_root
    [ -d "$tree" ] || "$package_dir/tarball"
}

# Gives everything below a directory the time of the release, and modes that do not depend on our umask.
settle() { # <directory>
    chmod -R u=rwX,go=rX "$1"
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# Installs programs of npm that look at a package, in the versions that are named here, or fails.
need_npm_tools() {
    need npm npm
    local wanted='@anthropic-ai/mcpb@2.1.2'
    if [ ! -e "$work/tools/$wanted.done" ]; then
        say "fetching $wanted"
        npm install --prefix "$work/tools" --no-audit --no-fund --ignore-scripts --loglevel=error "$wanted" >/dev/null
        mkdir -p "$work/tools/${wanted%/*}"
        touch "$work/tools/$wanted.done"
    fi
}

# Validates a JSON file by a JSON schema; further schemas are those that it refers to.
validate() { # <file> <schema…>
    local place=$root/validate schemas=("${@:2}")
    rm -rf "$place"
    mkdir -p "$place"
    cp "$1" "$place/file.json"
    cp "${schemas[@]}" "$place/"
    # shellcheck disable=SC2016
    in_root /validate python3 -c '
import json, sys
import jsonschema
schemas = [json.load(open(each, encoding="utf-8")) for each in sys.argv[1:]]
kind = jsonschema.validators.validator_for(schemas[0])
resolver = jsonschema.RefResolver.from_schema(schemas[0], store={each["$id"]: each for each in schemas})
kind(schemas[0], resolver=resolver).validate(json.load(open("file.json", encoding="utf-8")))
' "${schemas[@]##*/}" || fail "$1 is not as ${2##*/} wants it"
    say "$1 is as ${2##*/} wants it"
}
