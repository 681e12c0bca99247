/*
 * Versions of the internal protocol. Peers exchange this number in HELLO and refuse each other
 * when it differs, with an error that names both.
 *
 *   1  first version
 *   2  an engine has a place; progress of a creation; memory kills as the agent counts them
 *   3  a supervisor that takes over asks for the operations, and joins them
 *   4  languages that are run by programs; displays and changed files; network and packages
 *   5  the place of an engine, and what each place answered, are messages
 *   6  directories of this host are shown in sandboxes
 *   7  the agent alone says what runs and for how long; START and OP_INFO carry the whole timeout
 *   8  code in the sandbox asks for packages
 *   9  entries of a listing tell symlinks that lead to a directory
 *  10  input for what runs, and terminals
 *  11  START has no size of a terminal
 *  12  a sandbox of the pool gets the limits of whom it is given to
 *  13  a sandbox may have a door: connections out of it travel on the agent's stream
 *  14  a probe is asked for an image, and tells what would help
 *  15  a worker is told what packages may take, and how much I/O a sandbox may make
 *  16  a sandbox has a lifetime
 *  17  servers of one engine take over each other's sandboxes
 *  18  a probe tells whether another one would find the same
 *  19  a round among several servers may wait, and CLOSE of its worker ends them
 *  20  an operation is a connection to a port of the sandbox's loopback
 *  21  an operation imports a module into a live interpreter that has run nothing yet
 *  22  an agent without languages says what it looked at; servers of a cluster claim from each
 *      other's pools
 */
#ifndef CLOISTER_PROTO_VERSION_H
#define CLOISTER_PROTO_VERSION_H

#define PROTO_VERSION     22
#define PROTO_WORKER_NAME "cloister-worker"
#define PROTO_AGENT_NAME  "cloister-agent"

#endif
