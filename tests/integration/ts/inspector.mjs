// The inspector's command line: every call is a new client, over stdio with a new server as well, over HTTP
// with the server that keeps the sandboxes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { WAITING_CODE } from './drive.mjs';
import { startProxy } from './proxy.mjs';
import { startServer } from './server.mjs';
import { needsRuntime, program, run, runtimeDirectory, test, within } from './tap.mjs';

needsRuntime();
const directory = runtimeDirectory();
const inspector = join(dirname(fileURLToPath(import.meta.url)), '..', 'node_modules', '.bin', 'mcp-inspector');
// the first server never turns calls into tasks, even on a busy machine; the other one does so soon
const server = await startServer(program, ['--runtime-dir', runtimeDirectory(), '--task-after-seconds', '3600']);
const tasking = await startServer(program, ['--runtime-dir', runtimeDirectory(), '--task-after-seconds', '1']);
const proxy = await startProxy(tasking.url);
const targets = {
    stdio: [program, '--runtime-dir', directory, '--results', 'structured'],
    http: [`${server.url}/mcp`],
    sse: [`${server.url}/sse`],
    proxy: [`${proxy.url}/mcp`],
};
// the oldest transport only serves the older revisions
const ways = [
    ['stdio', 'legacy'],
    ['stdio', 'modern'],
    ['http', 'legacy'],
    ['http', 'modern'],
    ['sse', 'legacy'],
];

function start(transport, era, options) {
    return spawn(
        process.execPath,
        [inspector, '--cli', ...targets[transport], '--transport', transport === 'proxy' ? 'http' : transport, '--protocol-era', era, '--format', 'json', ...options],
        { stdio: ['ignore', 'pipe', 'pipe'] },
    );
}

async function inspect(transport, era, ...options) {
    const child = start(transport, era, options);
    const [[status], said, errors] = await within(options.join(' '), Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]), 120000);
    return { status, text: said, errors };
}

/** What the inspector printed as the result. */
function result(done) {
    assert.equal(done.status, 0, done.text + done.errors);
    const printed = JSON.parse(done.text);
    return printed.result ?? printed;
}

function calling(tool, args) {
    return ['--method', 'tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args)];
}

for (const [transport, era] of ways) {
    const through = `${transport}, ${era}`;
    const call = async (tool, args) => inspect(transport, era, ...calling(tool, args));
    const structured = async (tool, args) => result(await call(tool, args)).structuredContent;

    test(`${through}: lists the tools`, async () => {
        const tools = result(await inspect(transport, era, '--method', 'tools/list')).tools;
        assert.equal(tools.length, 14);
    });

    test(`${through}: calls tools`, async () => {
        const made = await structured('create_sandbox', {});
        assert.equal(made.state, 'ready');
        if (transport === 'stdio') {
            assert.equal((await structured('get_sandbox_status', {})).count, 0, 'a sandbox lives as long as its server');
            assert.equal((await structured('create_run_close', { code: 'print(1)' })).stdout, '1\n');
            assert.equal((await structured('execute_code', { code: '6 * 7' })).result, '42');
            assert.equal((await structured('write_file', { path: 'a.txt', content: 'a' })).size, 1);
            assert.match(JSON.stringify(await call('list_files', {})), /there is no sandbox yet/);
            return;
        }
        const sandbox_id = made.sandbox_id;
        assert.equal((await structured('execute_code', { sandbox_id, code: '6 * 7' })).result, '42');
        assert.equal((await structured('write_file', { sandbox_id, path: 'a.txt', content: 'inspect me' })).size, 10);
        const read = result(await inspect(transport, era, '--method', 'resources/read', '--uri', `sandbox://${sandbox_id}/workspace/a.txt`));
        assert.equal(read.contents[0].text, 'inspect me');
        assert.equal((await structured('close_sandbox', { sandbox_id })).state, 'closed');
    });

    test(`${through}: lists templates of resources`, async () => {
        const { resourceTemplates } = result(await inspect(transport, era, '--method', 'resources/templates/list'));
        assert.ok(resourceTemplates.some((template) => template.uriTemplate.startsWith('sandbox://')), JSON.stringify(resourceTemplates));
    });

    test(`${through}: a failing call is reported as such`, async () => {
        const done = await call('close_sandbox', { sandbox_id: 'nosuchsandbox' });
        assert.equal(done.status, 5, done.text + done.errors);
        assert.match(done.text + done.errors, /sandbox_not_found/);
    });
}

test('http, modern: a long call becomes a task, and the inspector follows it', async () => {
    const structured = async (tool, args) => result(await inspect('proxy', 'modern', ...calling(tool, args))).structuredContent;
    const { sandbox_id } = await structured('create_sandbox', {});
    const asked = proxy.seen((request) => request.headers['mcp-method'] === 'tasks/get');
    const running = inspect('proxy', 'modern', ...calling('execute_code', { sandbox_id, code: WAITING_CODE }));
    await within('the inspector to ask for its task', Promise.race([asked, running.then((done) => assert.fail(done.text + done.errors))]));
    await structured('write_file', { sandbox_id, path: 'go.txt', content: '' });
    assert.equal(result(await running).structuredContent.stdout, 'a line at once\nthe last line\n');
    await structured('close_sandbox', { sandbox_id });
});

test('http, modern: an inspector that is killed takes its call with it', async () => {
    const structured = async (tool, args) => result(await inspect('http', 'modern', ...calling(tool, args))).structuredContent;
    const { sandbox_id } = await structured('create_sandbox', {});
    const child = start('http', 'modern', calling('execute_code', { sandbox_id, code: 'import time\nwhile True: time.sleep(0.01)' }));
    const gone = once(child, 'close');
    const latest = async () => (await structured('get_sandbox_status', { sandbox_id })).executions_recent[0];
    let execution;
    await within('the call to run', (async () => {
        do {
            execution = await latest();
        } while (execution?.status !== 'running');
    })());
    child.kill('SIGKILL');
    await gone;
    const ended = await inspect('http', 'modern', ...calling('get_execution', { execution_id: execution.execution_id, wait_seconds: 30 }));
    assert.match(ended.text, /"status":\s*"cancelled"/, ended.text + ended.errors);
    await structured('close_sandbox', { sandbox_id });
});

test('the server ends without complaint', async () => {
    await proxy.close();
    await tasking.stop();
    await server.stop();
});
await run();
