// The inspector's command line: every call is a client and a server of its own.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { needsRuntime, program, run, runtimeDirectory, test } from './tap.mjs';

needsRuntime();
const directory = runtimeDirectory();
const inspector = join(dirname(fileURLToPath(import.meta.url)), '..', 'node_modules', '.bin', 'mcp-inspector');

function inspect(era, ...options) {
    const done = spawnSync(
        process.execPath,
        [inspector, '--cli', program, '--runtime-dir', directory, '--transport', 'stdio', '--protocol-era', era, '--format', 'json', ...options],
        { encoding: 'utf8', timeout: 120000 },
    );
    return { status: done.status, text: done.stdout, errors: done.stderr };
}

function call(era, tool, args) {
    return inspect(era, '--method', 'tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args));
}

/** The tool result in what the inspector printed. */
function result(done) {
    assert.equal(done.status, 0, done.text + done.errors);
    const printed = JSON.parse(done.text);
    return printed.result ?? printed;
}

for (const era of ['legacy', 'modern']) {
    test(`${era}: lists the tools`, () => {
        const tools = result(inspect(era, '--method', 'tools/list')).tools;
        assert.equal(tools.length, 10);
    });

    test(`${era}: calls every tool`, () => {
        assert.equal(result(call(era, 'create_sandbox', {})).structuredContent.state, 'ready');
        assert.equal(result(call(era, 'execute_code', { code: '6 * 7' })).structuredContent.result, '42');
        assert.equal(result(call(era, 'create_run_close', { code: 'print(1)' })).structuredContent.stdout, '1\n');
        assert.equal(result(call(era, 'write_file', { path: 'a.txt', content: 'a' })).structuredContent.size, 1);
        assert.deepEqual(result(call(era, 'list_files', {})).structuredContent.entries, []);
        assert.equal(result(call(era, 'get_sandbox_status', {})).structuredContent.count, 0);
    });

    test(`${era}: failing calls are reported as such`, () => {
        for (const [tool, args, word] of [
            ['read_file', { path: 'missing.txt' }, 'file_not_found'],
            ['close_sandbox', { sandbox_id: 'nosuchsandbox' }, 'sandbox_not_found'],
            ['get_execution', { execution_id: 'nosuchexecution2' }, 'execution_not_found'],
            ['cancel_execution', { execution_id: 'nosuchexecution2' }, 'execution_not_found'],
            ['execute_code', { code: '1/0' }, 'ZeroDivisionError'],
        ]) {
            const done = call(era, tool, args);
            assert.equal(done.status, 5, `${tool}: ${done.text} ${done.errors}`);
            assert.match(done.text + done.errors, new RegExp(word));
        }
    });
}

await run();
