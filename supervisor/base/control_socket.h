/*
 * The name of the control socket in the directory of an instance, for the server that listens there
 * and for the commands that look for it.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_CONTROL_SOCKET_H
#define CLOISTER_SUPERVISOR_BASE_CONTROL_SOCKET_H

#define CONTROL_SOCKET_NAME "control.sock"

#endif
