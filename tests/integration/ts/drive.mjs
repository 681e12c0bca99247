// All ten tools, driven through whatever official client is handed in.

import assert from 'node:assert/strict';
import { test } from './tap.mjs';

const TOOLS = [
    'cancel_execution', 'close_sandbox', 'create_run_close', 'create_sandbox', 'execute_code',
    'get_execution', 'get_sandbox_status', 'list_files', 'read_file', 'write_file',
];

/** Declares the cases. `client` is an object whose call(name, arguments) gives a whole result. */
export function drive(client) {
    let sandbox;

    const ask = async (name, args = {}) => {
        const result = await client.call(name, args);
        assert.ok(!result.isError, `${name}: ${JSON.stringify(result)}`);
        assert.ok(result.content.length > 0, `${name} has content`);
        return result.structuredContent;
    };

    test('lists the ten tools', async () => {
        const tools = await client.list();
        assert.deepEqual(tools.map((tool) => tool.name).sort(), TOOLS);
        for (const tool of tools) {
            assert.ok(tool.title && tool.description && tool.outputSchema && tool.annotations, tool.name);
        }
    });

    test('create_sandbox', async () => {
        const made = await ask('create_sandbox', { name: 'from-typescript', memory_mb: 256 });
        assert.equal(made.state, 'ready');
        assert.equal(made.limits.memory_mb, 256);
        sandbox = made.sandbox_id;
    });

    test('execute_code keeps state', async () => {
        await ask('execute_code', { sandbox_id: sandbox, code: 'x = 20 + 1' });
        const done = await ask('execute_code', { sandbox_id: sandbox, code: 'print("hi")\nx * 2' });
        assert.equal(done.result, '42');
        assert.equal(done.stdout, 'hi\n');
        assert.equal(done.interpreter, 'kept');
    });

    test('execute_code reports an error', async () => {
        const result = await client.call('execute_code', { sandbox_id: sandbox, code: '1/0' });
        assert.equal(result.isError, true);
        assert.match(result.content.map((block) => block.text).join('\n'), /ZeroDivisionError/);
        assert.equal(result.structuredContent.error.name, 'ZeroDivisionError');
    });

    test('execute_code in bash', async () => {
        const done = await ask('execute_code', { sandbox_id: 'from-typescript', language: 'bash', code: 'echo $((6 * 7))' });
        assert.equal(done.stdout, '42\n');
    });

    test('write_file, read_file, list_files', async () => {
        const text = 'Grüße, 世界 😀\n';
        const written = await ask('write_file', { sandbox_id: sandbox, path: 'notes/hello.txt', content: text });
        assert.equal(written.size, Buffer.byteLength(text));
        const read = await ask('read_file', { sandbox_id: sandbox, path: 'notes/hello.txt' });
        assert.equal(read.content, text);
        const listed = await ask('list_files', { sandbox_id: sandbox, path: 'notes' });
        assert.deepEqual(listed.entries.map((entry) => entry.name), ['hello.txt']);
    });

    test('get_sandbox_status', async () => {
        const one = await ask('get_sandbox_status', { sandbox_id: sandbox });
        assert.equal(one.name, 'from-typescript');
        const all = await ask('get_sandbox_status');
        assert.equal(all.count, 1);
    });

    test('calls at the same time', async () => {
        const results = await Promise.all(
            Array.from({ length: 20 }, (_, i) => ask('execute_code', { sandbox_id: sandbox, code: `${i} ** 2` })),
        );
        assert.deepEqual(results.map((done) => done.result), Array.from({ length: 20 }, (_, i) => String(i * i)));
    });

    test('create_run_close', async () => {
        const done = await ask('create_run_close', { code: 'import sys; sys.version_info[0]' });
        assert.equal(done.result, '3');
        assert.equal(done.sandbox_closed, true);
    });

    test('get_execution and cancel_execution', async () => {
        const done = await ask('execute_code', { sandbox_id: sandbox, code: 'print("once")' });
        const again = await ask('get_execution', { execution_id: done.execution_id });
        assert.equal(again.stdout, 'once\n');
        assert.equal(again.next_offset, 5);
        const late = await ask('cancel_execution', { execution_id: done.execution_id });
        assert.equal(late.status, 'ok');
    });

    test('wrong arguments and unknown sandboxes', async () => {
        const wrong = await client.call('execute_code', { sandbox_id: sandbox, code: 42 });
        assert.equal(wrong.isError, true);
        assert.match(wrong.content[0].text, /code/);
        const unknown = await client.call('execute_code', { sandbox_id: 'nosuchsandbox', code: '1' });
        assert.equal(unknown.structuredContent.error.code, 'sandbox_not_found');
        await assert.rejects(client.call('no_such_tool', {}), /no_such_tool/);
    });

    test('close_sandbox', async () => {
        const closed = await ask('close_sandbox', { sandbox_id: sandbox });
        assert.equal(closed.state, 'closed');
        const all = await ask('get_sandbox_status');
        assert.equal(all.count, 0);
    });

    test('the connection closes and the server ends', async () => {
        await client.close();
    });
}
