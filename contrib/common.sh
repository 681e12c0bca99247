# Shared by run and test: checks what is installed, and installs the rest. Sourced, never run.
# shellcheck shell=bash

common=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
as_root=() # words in front of a command that needs root
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
fi

say() {
    printf '==> %s\n' "$*"
}

# Whether pkg-config knows a library, or its header exists.
has_library() { # <pkg-config name> <header>
    if pkg-config --exists "$1" 2>/dev/null; then
        return 0
    fi
    local directory
    for directory in /usr/include /usr/local/include /opt/homebrew/include; do
        if [ -e "$directory/$2" ]; then
            return 0
        fi
    done
    return 1
}

has_command() {
    command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]
}

# Collects in `missing` the Debian names of missing packages, in `wanted` their purposes.
missing=()
wanted=()

need_command() { # <command> <package>
    if ! has_command "$1"; then
        missing+=("$2")
        wanted+=("$1 (Debian: $2)")
    fi
}

need_library() { # <pkg-config name> <header> <package>
    if ! has_library "$1" "$2"; then
        missing+=("$3")
        wanted+=("$2 (Debian: $3)")
    fi
}

need_to_build() {
    need_command cc build-essential
    need_command meson meson
    need_command ninja ninja-build
    need_command pkg-config pkg-config
    need_library nng nng/nng.h libnng-dev
    need_library msgpack msgpack.h libmsgpack-dev
    need_library libcjson cjson/cJSON.h libcjson-dev
    need_library libuv uv.h libuv1-dev
    need_library libcurl curl/curl.h libcurl4-openssl-dev # the header; the library is loaded if it is needed
    need_library libarchive archive.h libarchive-dev # as libcurl: the header to build, the library for what needs it
    need_library yaml-0.1 yaml.h libyaml-dev # likewise, for kubeconfig files
    need_library libmicrohttpd microhttpd.h libmicrohttpd-dev # the headers, with those of GnuTLS; loaded if HTTP is asked for
    need_command python3 python3
}

# A sandbox needs a runtime; an ordinary user also needs the helpers that map ids.
need_to_run() {
    need_command runc runc # crun alone is not enough: some versions refuse hosts with cgroups in hybrid mode
    if [ "$(id -u)" -ne 0 ]; then
        need_command newuidmap uidmap
    fi
}

# Installs the collected packages, if there are any, and none of their services. Without apt it prints what to install.
install_missing() {
    if [ ${#missing[@]} -eq 0 ]; then
        return 0
    fi
    if ! has_command apt-get || { [ ${#as_root[@]} -gt 0 ] && ! has_command sudo; }; then
        printf 'Please install these and start again:\n' >&2
        printf '  %s\n' "${wanted[@]}" >&2
        return 1
    fi
    say "installing ${missing[*]}"
    # existing package lists are often good enough, and much faster
    if ! "${as_root[@]}" "$common/install-quietly" "${missing[@]}" >/dev/null 2>&1; then
        "${as_root[@]}" apt-get update -q
        "${as_root[@]}" "$common/install-quietly" "${missing[@]}"
    fi
    missing=()
    wanted=()
}

# Installs what is not needed by everything, if it can be, and says what will be missing without it.
install_if_possible() { # <command> <package> <what is missing without it>
    if has_command apt-get; then
        need_command "$1" "$2"
        install_missing >/dev/null 2>&1 || true
        missing=()
        wanted=()
    fi
    has_command "$1" || say "no $1 here: $3"
}

# Installs the helper that gives installers of packages their network. Sandboxes work without it.
install_network_helper() {
    install_if_possible slirp4netns slirp4netns "packages cannot be installed where no container engine is used"
}

# Installs engines, whose services stay off (install-quietly), gVisor, and the helpers that map ids for the tests of ordinary users. Those tests need root and
# are skipped without it, or where a package is missing.
install_engines() {
    local each command
    for each in dockerd:docker.io podman:podman mmdebstrap:mmdebstrap docker-registry:docker-registry newuidmap:uidmap apparmor_parser:apparmor runsc:runsc; do
        command=${each%%:*}
        if [ "$(id -u)" -eq 0 ] && has_command apt-get; then
            need_command "$command" "${each#*:}"
            install_missing >/dev/null 2>&1 || true
            missing=()
            wanted=()
        fi
        has_command "$command" || say "no $command here: tests that need it will be skipped"
    done
}

# Installs languages and libraries, which sandboxes without an image show. Tests of missing ones are skipped,
# so whatever can be installed is enough.
install_languages_and_libraries() {
    local package wanted_here=()
    if ! has_command apt-get || { [ ${#as_root[@]} -gt 0 ] && ! sudo -n true 2>/dev/null; }; then
        say "no apt here: languages and libraries that are missing will not be tested"
        return 0
    fi
    for package in \
        ruby lua5.4 php-cli golang-go rustc r-base-core node-typescript default-jdk-headless g++ \
        python3-numpy python3-pandas python3-matplotlib python3-pil python3-pip python3-setuptools python3-wheel; do
        dpkg -s "$package" >/dev/null 2>&1 || wanted_here+=("$package")
    done
    # Debian's npm conflicts with a node of another origin, which has its own
    has_command node || wanted_here+=(nodejs)
    has_command npm || wanted_here+=(npm)
    if [ ${#wanted_here[@]} -eq 0 ]; then
        return 0
    fi
    say "installing languages and libraries: ${wanted_here[*]}"
    local install=("${as_root[@]}" "$common/install-quietly")
    if "${install[@]}" "${wanted_here[@]}" >/dev/null 2>&1; then
        return 0
    fi
    "${as_root[@]}" apt-get update -q >/dev/null 2>&1 || true
    "${install[@]}" "${wanted_here[@]}" >/dev/null 2>&1 && return 0
    # a package that is missing or conflicts must not prevent the others
    for package in "${wanted_here[@]}"; do
        "${install[@]}" "$package" >/dev/null 2>&1 || say "no $package here"
    done
    return 0
}

# Configures a build directory once, and again when its options have changed.
configure() { # <source> <directory> <options…>
    local source=$1 directory=$2
    shift 2
    if [ -f "$directory/build.ninja" ]; then
        meson configure "$directory" "$@"
    else
        meson setup "$directory" "$source" "$@"
    fi
}
