// A server that listens for HTTP on a free port of this machine, as a child of the test.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { within } from './tap.mjs';

const STOP_MS = 30000;
const LOG_LINES = 200; // kept for a test that failed

/** Starts it; `url` is where it listens (any free port, if none is given), `log` what it has written to stderr of late. */
export async function startServer(program, options = [], port = 0) {
    const child = spawn(program, ['--http', `127.0.0.1:${port}`, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
    const log = [];
    const ended = once(child, 'exit');
    const listening = new Promise((resolve, reject) => {
        createInterface({ input: child.stderr }).on('line', (line) => {
            log.push(line);
            log.splice(0, log.length - LOG_LINES);
            const found = line.match(/listening on (http:\/\/[^\s/]+)/);
            if (found) {
                resolve(found[1]);
            }
        });
        ended.then(() => reject(new Error(`${program} ended before it listened:\n${log.join('\n')}`)));
    });
    process.on('exit', () => child.kill('SIGKILL'));
    return {
        url: await within('the start of the server', listening),
        log,
        /** Ends it as an operator would, and sees that it goes without complaint. */
        async stop() {
            child.kill('SIGTERM');
            const [status] = await within('the end of the server', ended, STOP_MS);
            assert.equal(status, 0, `the server ended with ${status}:\n${log.join('\n')}`);
        },
    };
}
