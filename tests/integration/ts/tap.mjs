// Test cases as TAP, like tests/lib/tap.py, and a runtime directory for the server under test.

import { mkdtempSync, rmSync, chmodSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';

export const program = process.env.CLOISTER;

const cases = [];

/** Thrown by a case that cannot be run, or has nothing to say. */
export class Skip extends Error {}

/** What a promise gives, or an error if that takes too long. */
export function within(what, promise, ms = 60000) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${what}: nothing for ${ms} ms`)), ms);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A line that explains, beside the cases. */
export function note(text) {
    for (const line of String(text).split('\n')) {
        console.log(`# ${line}`);
    }
}

export function test(name, run) {
    cases.push({ name, run });
}

export function runtimeDirectory() {
    const directory = mkdtempSync(join(tmpdir(), 'clots'));
    chmodSync(directory, 0o755);
    process.on('exit', () => rmSync(directory, { recursive: true, force: true }));
    return directory;
}

/** Ends the file as skipped when no sandbox can be made on this machine. */
export function needsRuntime() {
    const doctor = spawnSync(program, ['doctor'], { encoding: 'utf8', timeout: 120000 });
    if (doctor.status !== 0) {
        console.log('1..0 # SKIP no usable OCI runtime');
        process.exit(0);
    }
}

export async function run() {
    console.log(`1..${cases.length}`);
    let failed = 0;
    for (const [index, { name, run: body }] of cases.entries()) {
        try {
            await body();
            console.log(`ok ${index + 1} - ${name}`);
        } catch (problem) {
            if (problem instanceof Skip) {
                console.log(`ok ${index + 1} - ${name} # SKIP ${problem.message}`);
                continue;
            }
            failed++;
            console.log(`not ok ${index + 1} - ${name}`);
            note(problem?.stack ?? problem);
        }
    }
    process.exitCode = failed ? 1 : 0;
}
