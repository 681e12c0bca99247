/*
 * A fleet without processes, for fuzzing the layers above it. It keeps the parts of fleet.h's
 * contract that matter most to them: no callback runs inside the call that takes it, every callback
 * runs exactly once, and everything handed out is freed afterwards.
 */
#ifndef CLOISTER_TESTS_FUZZ_FAKE_FLEET_H
#define CLOISTER_TESTS_FUZZ_FAKE_FLEET_H

#include <stdbool.h>

#include "supervisor/fleet/fleet.h"

/* Runs the oldest pending callback; false if there is none. */
bool fake_fleet_step(struct fleet *f);

#endif
