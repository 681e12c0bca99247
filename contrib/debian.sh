# Shared by clean-root and package: makes roots of Debian with this machine's mirror. Sourced, never run.
# shellcheck shell=bash

# Lines for sources.list: this machine's mirror if it is a Debian, or nothing, for mmdebstrap's default.
debian_sources() { # <suite>
    local codename archive security key=
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && [ "$ID" = debian ] && printf '%s' "${VERSION_CODENAME:-}") || return 0
    archive=$(debian_repository "$codename")
    security=$(debian_repository "$codename-security")
    [ -n "$archive" ] || return 0
    [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] || key='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] '
    printf 'deb %s%s %s main\n' "$key" "$archive" "$1"
    case $1 in
        sid | unstable | testing | experimental) ;;
        *)
            printf 'deb %s%s %s main\n' "$key" "$archive" "$1-updates"
            [ -z "$security" ] || printf 'deb %s%s %s main\n' "$key" "$security" "$1-security"
            ;;
    esac
}

debian_repository() { # <release>
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(IDENTIFIER) $(RELEASE) $(REPO_URI)' |
        awk -v release="$1" '$1 == "Packages" && $2 == release && $3 ~ /^https?:/ { print $3; exit }'
}

# Makes a root, or an archive if the target ends so. The target appears at its end only; what mmdebstrap says is in TARGET.log
# until then, and shown if it fails.
debian_make() { # <suite> <target> <packages, separated by commas> [options of mmdebstrap…]
    local suite=$1 target=$2 packages=$3 option arguments=()
    shift 3
    while read -r option; do
        arguments+=(--aptopt="$option")
    done < <(apt-config dump | grep -E '^Acquire::((http|https)::([^:]*::)*(Proxy|No-Cache|Pipeline-Depth)(::[^ ]+)?|Check-Valid-Until|Check-Date|Retries|ForceIPv[46]) "[^"]')
    debian_sources "$suite" >"$target.list"
    case $(cat "$target.list") in *' https:'*) packages+=,ca-certificates ;; esac
    arguments+=("$@" "$suite" "$target")
    [ ! -s "$target.list" ] || arguments+=("$target.list")
    if ! mmdebstrap --mode=root --dpkgopt=force-unsafe-io --include="$packages" "${arguments[@]}" >"$target.log" 2>&1; then
        cat "$target.log" >&2
        rm -rf --one-file-system "$target" "$target.list" "$target.log"
        printf 'mmdebstrap made no %s\n' "$suite" >&2
        return 1
    fi
    rm -f "$target.list" "$target.log"
}

# Lists the files of a clone that git does not ignore and that exist, each ended by a zero; all of them without git.
clone_files() { # <top of the clone>
    local file
    if git -c safe.directory="$1" -C "$1" rev-parse --git-dir >/dev/null 2>&1; then
        git -c safe.directory="$1" -C "$1" ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
            [ ! -e "$1/$file" ] && [ ! -L "$1/$file" ] || printf '%s\0' "$file"
        done
    else
        (cd "$1" && find . -mindepth 1 \( -path './build*' -o -name node_modules -o -name __pycache__ \) -prune -o -print0)
    fi
}

# Copies them into a directory that exists.
clone_copy() { # <top of the clone> <directory>
    clone_files "$1" | tar -C "$1" --null --no-recursion --files-from=- -cf - | tar -C "$2" --no-same-owner -xf -
}
