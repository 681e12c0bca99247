/*
 * Programs that run in sandboxes to install packages and to look which there are; their sources are
 * in installers/, built in as texts. Each is read from the standard input of its interpreter.
 */
#ifndef CLOISTER_SUPERVISOR_PACKAGES_INSTALLERS_H
#define CLOISTER_SUPERVISOR_PACKAGES_INSTALLERS_H

extern const char installer_pip[];
extern const char installer_npm[];
extern const char installer_look_python[];
extern const char installer_look_node[];

#endif
