/*
 * Programs that run in sandboxes to install packages, and to list them. Their sources are in
 * installers/, and built in as texts. The interpreter reads each from its standard input.
 */
#ifndef CLOISTER_SUPERVISOR_PACKAGES_INSTALLERS_H
#define CLOISTER_SUPERVISOR_PACKAGES_INSTALLERS_H

extern const char installer_pip[];
extern const char installer_npm[];
extern const char installer_look_python[];
extern const char installer_look_node[];

#endif
