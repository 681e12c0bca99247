/*
 * The drivers: our programs that run inside the interpreters. embed.py turns the files of drivers/
 * into these strings.
 */
#ifndef CLOISTER_WORKER_AGENT_INTERP_DRIVERS_H
#define CLOISTER_WORKER_AGENT_INTERP_DRIVERS_H

#include <stddef.h>

extern const char driver_python[];
/* The same as the build's Python compiles it: the magic number of a .pyc, and the code. */
extern const char driver_python_code[];
extern const size_t driver_python_code_size;
extern const char driver_python_rich[];
extern const char driver_python_ipython[];
extern const char driver_python_dead[];
extern const char driver_python_notebook[];
extern const char driver_bash[];
extern const char driver_pip_front[];

/* Expressions whose values are functions; node.c calls the first with the others. */
extern const char driver_node[];
extern const char driver_node_cells[];
extern const char driver_node_display[];
extern const char driver_node_streams[];

#endif
