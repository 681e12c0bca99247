/*
 * The drivers: programs of ours that run inside the interpreters. Their sources are files of
 * drivers/, turned into these strings by embed.py.
 */
#ifndef CLOISTER_WORKER_AGENT_DRIVERS_H
#define CLOISTER_WORKER_AGENT_DRIVERS_H

extern const char driver_python[];
extern const char driver_bash[];

#endif
