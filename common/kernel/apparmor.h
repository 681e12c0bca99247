/*
 * Whether this host's kernel has our AppArmor profile for sandboxes (contrib/apparmor).
 *
 * Thread: any. Reads two small files of the kernel.
 */
#ifndef CLOISTER_COMMON_KERNEL_APPARMOR_H
#define CLOISTER_COMMON_KERNEL_APPARMOR_H

#define APPARMOR_PROFILE "cloister-sandbox"

enum apparmor {
    APPARMOR_NONE,     /* this kernel has no AppArmor, or it is switched off */
    APPARMOR_HIDDEN,   /* which profiles it has is told to root only */
    APPARMOR_UNLOADED, /* ours is not among its profiles */
    APPARMOR_LOADED,
};

/* `fs_root` is "" for the real system; tests point it at a directory with canned files. */
enum apparmor apparmor_look(const char *fs_root);

#endif
