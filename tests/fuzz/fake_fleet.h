/*
 * A fleet without processes, for fuzzing what stands in front of it. It keeps the contract of
 * fleet.h that matters most there: no callback runs inside the call that takes it, every callback
 * runs exactly once, and everything handed out is gone afterwards.
 */
#ifndef CLOISTER_TESTS_FUZZ_FAKE_FLEET_H
#define CLOISTER_TESTS_FUZZ_FAKE_FLEET_H

#include <stdbool.h>

#include "supervisor/fleet/fleet.h"

/* Runs the oldest callback that is due; false if there is none. */
bool fake_fleet_step(struct fleet *f);

#endif
