/*
 * The packed mode carries the result of a probe to later creations on the same host, which then
 * need no probe. Other code treats it as opaque, so its layout may change with any build: a version
 * in the top bits makes the number of another build unknown, and an unknown mode only costs a new
 * probe.
 */
#include "worker/backend/mode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MODE_VERSION 3u

enum {
    SHIFT_USERNS = 0,
    SHIFT_CGROUPS = 2,
    SHIFT_CHOICE = 4,
    SHIFT_VERSION = 28,
    BIT_MEMORY = 1 << 8,
    BIT_SWAP = 1 << 9,
    BIT_CPU = 1 << 10,
    BIT_PIDS = 1 << 11,
    BIT_HIDE = 1 << 12,
    BIT_CRUN = 1 << 13,
    BIT_FLAWED = 1 << 14,
    BIT_VIEWS = 1 << 15,
    BIT_RELAY = 1 << 16,
    BIT_OWN_KERNEL = 1 << 17,
    BIT_COUNTED = 1 << 18,
    BIT_GVISOR = 1 << 19,
    BITS_KNOWN = 0xfffff,
};

uint64_t oci_mode_pack(const struct oci_mode *mode)
{
    uint64_t packed = (uint64_t)MODE_VERSION << SHIFT_VERSION;
    packed |= (uint64_t)mode->userns << SHIFT_USERNS;
    packed |= (uint64_t)mode->cgroups << SHIFT_CGROUPS;
    packed |= (uint64_t)(mode->choice & 15) << SHIFT_CHOICE;
    packed |= mode->memory ? BIT_MEMORY : 0;
    packed |= mode->swap ? BIT_SWAP : 0;
    packed |= mode->cpu ? BIT_CPU : 0;
    packed |= mode->pids ? BIT_PIDS : 0;
    packed |= mode->hide ? BIT_HIDE : 0;
    packed |= mode->crun ? BIT_CRUN : 0;
    packed |= mode->flawed ? BIT_FLAWED : 0;
    packed |= mode->views ? BIT_VIEWS : 0;
    packed |= mode->relay ? BIT_RELAY : 0;
    packed |= mode->own_kernel ? BIT_OWN_KERNEL : 0;
    packed |= mode->counted ? BIT_COUNTED : 0;
    packed |= mode->gvisor ? BIT_GVISOR : 0;
    return packed;
}

bool oci_mode_unpack(uint64_t packed, struct oci_mode *ret_mode)
{
    unsigned userns = (packed >> SHIFT_USERNS) & 3;
    unsigned cgroups = (packed >> SHIFT_CGROUPS) & 3;
    uint64_t rest = packed & ~(uint64_t)BITS_KNOWN;
    if (rest != (uint64_t)MODE_VERSION << SHIFT_VERSION || userns == 0 || cgroups == 0) {
        return false;
    }
    bool limits = cgroups != OCI_CGROUPS_NONE;
    if (!limits && (packed & (BIT_MEMORY | BIT_SWAP | BIT_CPU | BIT_PIDS)) != 0) {
        return false;
    }
    *ret_mode = (struct oci_mode){
        .userns = (enum oci_userns)userns,
        .cgroups = (enum oci_cgroups)cgroups,
        .memory = (packed & BIT_MEMORY) != 0,
        .swap = (packed & BIT_SWAP) != 0,
        .cpu = (packed & BIT_CPU) != 0,
        .pids = (packed & BIT_PIDS) != 0,
        .hide = (packed & BIT_HIDE) != 0,
        .crun = (packed & BIT_CRUN) != 0,
        .flawed = (packed & BIT_FLAWED) != 0,
        .views = (packed & BIT_VIEWS) != 0,
        .relay = (packed & BIT_RELAY) != 0,
        .own_kernel = (packed & BIT_OWN_KERNEL) != 0,
        .counted = (packed & BIT_COUNTED) != 0,
        .gvisor = (packed & BIT_GVISOR) != 0,
        .choice = (packed >> SHIFT_CHOICE) & 15,
    };
    return true;
}

void oci_notes_add(struct oci_notes *notes, const char *fmt, ...)
{
    if (notes->count == BACKEND_UNAPPLIED_MAX) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    vsnprintf(notes->text[notes->count++], OCI_NOTE_MAX, fmt, args);
    va_end(args);
}

void oci_mode_note_views(struct oci_notes *notes)
{
    oci_notes_add(notes, "private files: no overlay can be mounted in a sandbox here, or no file "
                         "of a device made for it; locks and watches on files of the root reach "
                         "other sandboxes and this host");
}

void oci_mode_unapplied(const struct oci_mode *mode, bool swap_active, const char *why,
                        struct oci_notes *ret_notes)
{
    const char *reason = why;
    if (reason[0] == '\0') {
        reason = mode->cgroups == OCI_CGROUPS_NONE ? "no cgroup can be made here"
                                                   : "this host has no such cgroup controller";
    }
    ret_notes->count = 0;
    if (!mode->memory) {
        oci_notes_add(ret_notes, "memory: %s; %s", reason,
                      mode->own_kernel ? "nothing stands in" : "RLIMIT_DATA per process stands in");
        if (why[0] != '\0') {
            reason = "for the same reason as memory"; /* the runtime's words are long */
        }
    } else if (!mode->swap && swap_active) {
        oci_notes_add(ret_notes, "swap: the kernel does not account it; memory may swap out");
    }
    if (!mode->cpu) {
        oci_notes_add(ret_notes, "cpus: %s", reason);
    }
    if (!mode->pids) {
        oci_notes_add(ret_notes, "pids: %s; %s", reason,
                      mode->counted ? "RLIMIT_NPROC stands in" : "nothing stands in");
    } else if (!mode->counted) {
        oci_notes_add(ret_notes, "process limit: RLIMIT_NPROC does not hold in a sandbox; one with "
                                 "too many processes is ended by its control group");
    }
    if (mode->userns == OCI_USERNS_SINGLE) {
        oci_notes_add(ret_notes, "uid: no subordinate ids can be mapped; code runs under the uid "
                                 "of the agent");
    } else if (mode->userns == OCI_USERNS_NONE) {
        oci_notes_add(ret_notes, "user namespace: none can be made here; root in the sandbox is "
                                 "root on the host, without its capabilities");
    }
    if (!mode->views && !mode->own_kernel) {
        oci_mode_note_views(ret_notes);
    }
    if (!mode->hide && mode->own_kernel) {
        oci_notes_add(ret_notes, "processes: the sandbox's own kernel shows code all processes of "
                                 "its sandbox, the agent's among them");
    } else if (!mode->hide) {
        oci_notes_add(ret_notes, "hidepid: the runtime cannot hide other users' processes");
    }
    if (mode->flawed) {
        oci_notes_add(ret_notes, "runtime: ways out of its containers are known, which newer "
                                 "versions have closed; `cloister doctor` names them");
    }
}

size_t oci_notes_list(const struct oci_notes *notes, const char *list[BACKEND_UNAPPLIED_MAX])
{
    for (size_t i = 0; i < notes->count; i++) {
        list[i] = notes->text[i];
    }
    return notes->count;
}
