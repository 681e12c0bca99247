/*
 * A remedy depends on who runs the server and on what the host has, so one table of texts by the
 * name of a limit would send people to the wrong place: control groups fail an ordinary user for
 * want of a session of systemd, and root for a container's read-only mount. Each text is a command
 * or a setting, because "enable delegation" tells nobody what to type.
 */
#include "worker/backend/oci/remedies.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "worker/backend/oci/runtime.h"

#define UNIFIED                                                                                    \
    "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line (cgroups of "       \
    "version 2)"

#define RANGE                                                                                      \
    "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER (or another "      \
    "range "                                                                                       \
    "that nobody has)"

static bool is_about(const char *note, const char *name)
{
    size_t len = strlen(name);
    return strncmp(note, name, len) == 0 && note[len] == ':';
}

static bool has_program(const char *name)
{
    CLEANUP_FREE char *path = NULL;
    struct err err;
    return oci_runtime_find(name, &path, &err) == 0;
}

static const char *remedy_for_cgroups(const struct oci_host *host)
{
    const struct oci_cgroup_host *c = &host->cgroup;
    if (c->version == OCI_CGROUP_VERSION_NONE) {
        return host->root
                   ? "mount control groups: mount -t cgroup2 none /sys/fs/cgroup"
                   : "this host has no control groups mounted: as root, mount -t cgroup2 none "
                     "/sys/fs/cgroup";
    }
    if (host->root && !c->parent_writable) {
        return "/sys/fs/cgroup cannot be written here. If this is a container, start it with "
               "control "
               "groups of its own that it may write (docker run --privileged does that), or run "
               "cloister outside of it";
    }
    if (host->root) {
        return "boot with the controllers switched on: cgroup_enable=memory swapaccount=1 on the "
               "kernel's command line; in a container, give it control groups of its own";
    }
    if (c->version == OCI_CGROUP_VERSION_1) {
        return "control groups of version 1 are root's alone: " UNIFIED
               ", or start cloister as root";
    }
    if (!host->booted) {
        return "control groups are handed to ordinary users by systemd, which does not run here: "
               "start cloister as root, or use a container engine (--backend docker)";
    }
    if (!host->systemd) {
        return "start cloister in a systemd session of this user, which su and sudo do not make: "
               "sudo loginctl enable-linger $USER, log in again (ssh, or machinectl shell $USER@), "
               "and see that systemctl --user status answers";
    }
    return "let systemd hand the controllers to users: sudo systemctl set-property "
           "user@$UID.service "
           "Delegate=yes, or \"[Service] Delegate=cpu cpuset io memory pids\" in "
           "/etc/systemd/system/user@.service.d/delegate.conf and sudo systemctl daemon-reload; "
           "then "
           "log in again";
}

static const char *remedy_for_ids(const struct oci_host *host)
{
    bool mappers = has_program("newuidmap") && has_program("newgidmap");
    if (host->userns_off[0] != '\0') {
        return "allow user namespaces to ordinary users: sudo sysctl "
               "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), "
               "kernel.unprivileged_userns_clone=1 (older Debian) or "
               "user.max_user_namespaces=15000, whichever this host has";
    }
    if (!mappers && !oci_host_has_range(host)) {
        return "install newuidmap and newgidmap (apt install uidmap, dnf install shadow-utils), "
               "and "
               "grant this user ids: " RANGE;
    }
    if (!mappers) {
        return "install newuidmap and newgidmap: apt install uidmap (dnf install shadow-utils)";
    }
    return oci_host_has_range(host)
               ? "newuidmap and newgidmap are installed but do not map the ids of /etc/subuid and "
                 "/etc/subgid: install them again (apt install --reinstall uidmap), since they "
                 "need "
                 "their capabilities"
               : "grant this user ids: " RANGE;
}

static const char *remedy_for_userns(const struct oci_host *host)
{
    return host->userns_off[0] != '\0'
               ? "allow user namespaces: sysctl -w user.max_user_namespaces=15000"
               : "if this is a container, let it make user namespaces (docker run --privileged); "
                 "else install a newer runtime (apt install runc or crun)";
}

const char *oci_remedy(const char *note, const struct oci_host *host)
{
    static const struct {
        const char *name, *remedy;
    } rows[] = {
        {"swap",
         "boot with swapaccount=1 on the kernel's command line, or switch swap off: swapoff "
         "-a"},
        {"private files",
         "put --runtime-dir on a file system that overlays can be made on (tmpfs, "
         "ext4 or xfs; not another overlay), on a kernel of 5.11 or later; "
         "runc 1.2.8 and later, 1.3.3 and later, and 1.4 mount no overlay over a root"},
        {"packages", "leave --build-packages off: then only pip and npm write there, which count"},
        {"hidepid",
         "install a newer runtime (runc 1.1 or crun 1.0, or later), on a kernel of 5.8 or "
         "later"},
        {"runtime", "install a newer runc (1.2.8, 1.3.3 or later by its authors' numbers), or name "
                    "another runtime: --runtime crun"},
        {"private devices", "start cloister as root, or use a container engine (--backend docker)"},
        {"sockets", UNIFIED},
        {"netlink",
         "boot a newer kernel (Linux 5.9 or later); meanwhile a small net.core.rmem_max keeps "
         "it low: sysctl -w net.core.rmem_max=212992"},
        {"io writes", UNIFIED},
        {"io", "name the disk, such as --io-device /dev/sda; where no control group has reads and "
               "writes, the controller is called blkio in version 1 and io in version 2, and an "
               "ordinary user has it by Delegate=yes"},
        {"core", "raise the hard limit where cloister is started: LimitCORE=1 in its unit, or "
                 "\"* hard core 1\" in /etc/security/limits.conf and a new login"},
    };
    if (is_about(note, "memory") || is_about(note, "cpus") || is_about(note, "pids")) {
        return remedy_for_cgroups(host);
    }
    if (is_about(note, "uid")) {
        return remedy_for_ids(host);
    }
    if (is_about(note, "user namespace")) {
        return remedy_for_userns(host);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (is_about(note, rows[i].name)) {
            return rows[i].remedy;
        }
    }
    return NULL;
}
