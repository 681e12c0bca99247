#!/usr/bin/env node
// Starts the programs of the package for this platform, which npm installs as an optional dependency: of all that are named it takes
// the one whose os, cpu and libc are this machine's.
//
// Standard streams are handed through, signals are passed on, and the exit status is the program's. Ending is left to the program: a
// client closes its pipe, or sends a signal, and cloister then ends its sandboxes before it exits.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { dirname, join } = require("node:path");
const { isatty } = require("node:tty");

const binaries = `cloister-${process.platform}-${process.arch}`;
const known = Object.keys(require("./package.json").optionalDependencies);

function find() {
    if (!known.includes(binaries)) {
        throw new Error(
            `there are no programs for ${process.platform} on ${process.arch}, only: ${known.join(", ")}; ` +
                "the container image of cloister runs beside Docker on any system",
        );
    }
    try {
        return join(dirname(require.resolve(`${binaries}/package.json`)), "bin", "cloister");
    } catch {
        throw new Error(
            `the package ${binaries} is missing: it is optional for npm, so install cloister again without --omit=optional; ` +
                "it is for glibc, and not installed where there is another C library (Alpine)",
        );
    }
}

let program;
try {
    program = find();
} catch (error) {
    console.error(`cloister: ${error.message}`);
    process.exit(69);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) {
    process.on(signal, () => {
        if (signal !== "SIGINT" || !isatty(0)) { // a terminal sends it to both
            child.kill(signal);
        }
    });
}
child.on("error", (error) => {
    console.error(`cloister: ${program} cannot be started: ${error.message}`);
    process.exitCode = 69;
});
child.on("exit", (status, signal) => {
    process.exitCode = signal ? 128 + constants.signals[signal] : status;
});
