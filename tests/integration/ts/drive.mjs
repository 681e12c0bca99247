// The usual calls of clients to cloister, made by any client over any transport.
//
// A client is an object: list() returns the tools, call(name, arguments, options) a whole result, where
// options may have `onprogress` and `signal` as in official clients, read(uri) the contents of a resource,
// close() ends it. watch(uri, told) subscribes to a resource and returns a function that unsubscribes.
// `through` names the client in the names of the cases.

import assert from 'node:assert/strict';
import { test as declare, within } from './tap.mjs';

const WAIT_MS = 60000;
const RESULT_TEXT = (result) => result.content.map((block) => block.text).join('\n');

const TOOLS = [
    'cancel_execution',
    'check_package_status',
    'close_sandbox',
    'create_run_close',
    'create_sandbox',
    'execute_code',
    'get_execution',
    'get_sandbox_status',
    'install_package',
    'list_files',
    'read_file',
    'upload_file',
    'write_file',
    'write_stdin',
];

/** Code that says something and then waits for a file, so that a test decides when it ends. */
export const WAITING_CODE = 'import os, time\nprint("a line at once", flush=True)\nwhile not os.path.exists("go.txt"): time.sleep(0.02)\nos.remove("go.txt")\nprint("the last line")';

/** Asks again until there is an answer that is no error. */
async function until(what, attempt) {
    const end = Date.now() + WAIT_MS;
    for (;;) {
        const result = await attempt();
        if (!result.isError) {
            return result;
        }
        assert.ok(Date.now() < end, `${what}: ${RESULT_TEXT(result)}`);
    }
}

/**
 * Output while code runs, cancelling, resources: in a sandbox named `name`, whose id `idOf()` tells, and
 * by texts alone, which the oldest clients get as well. `says`: progress has messages in this revision.
 */
function driveLive(test, client, name, idOf, says) {
    const ask = async (tool, args, options) => {
        const result = await client.call(tool, { sandbox_id: name, ...args }, options);
        assert.ok(!result.isError, `${tool}: ${RESULT_TEXT(result)}`);
        return RESULT_TEXT(result);
    };

    test('output comes while code runs', async () => {
        let heard;
        const hearing = new Promise((resolve) => {
            heard = resolve;
        });
        const running = ask(
            'execute_code',
            {
                code: WAITING_CODE,
            },
            {
                onprogress: (progress) => {
                    if (!says || /a line at once/.test(progress.message ?? '')) {
                        heard(progress);
                    }
                },
            },
        );
        try {
            const first = await within('progress', Promise.race([hearing, running]));
            assert.equal(typeof first, 'object', `the call was answered first: ${first}`);
            assert.ok(first.progress > 0, JSON.stringify(first));
        } finally {
            await ask('write_file', { path: 'go.txt', content: '' }); // only now the code ends
        }
        assert.match(await within('the answer', running), /the last line/);
    });

    test('a call that is cancelled stops its code', async () => {
        const cancelling = new AbortController();
        const running = client
            .call(
                'execute_code',
                {
                    sandbox_id: name,
                    code: 'import time\nwhile True:\n    with open("beat.txt", "a") as file: file.write(".")\n    time.sleep(0.01)',
                },
                { signal: cancelling.signal },
            )
            .then(
                (result) => `answered: ${JSON.stringify(result)}`,
                () => 'given up',
            );
        await until('the code begins', () => client.call('read_file', { sandbox_id: name, path: 'beat.txt' }));
        cancelling.abort('the test does not want it any more');
        assert.equal(await within('the end of the call', running), 'given up');
        // the interpreter, or its successor, is idle again, and the file no longer grows
        const grown = await ask('execute_code', {
            code: 'import os, time\nbefore = os.path.getsize("beat.txt")\ntime.sleep(0.5)\n"grown by", os.path.getsize("beat.txt") - before',
        });
        assert.match(grown, /'grown by', 0\)/);
    });

    test('a file is read as a resource', async () => {
        await ask('write_file', { path: 'notes/resource.txt', content: 'read me as a resource' });
        const contents = await client.read(`sandbox://${idOf()}/workspace/notes/resource.txt`);
        assert.equal(contents.length, 1);
        assert.equal(contents[0].text, 'read me as a resource');
        await assert.rejects(client.read(`sandbox://${idOf()}/workspace/notes/missing.txt`));
        await assert.rejects(client.read('sandbox://nosuchsandbox/workspace/notes/resource.txt'));
    });

    test('who watches a file is told of its change', async () => {
        const uri = `sandbox://${idOf()}/workspace/notes/resource.txt`;
        let told;
        const telling = new Promise((resolve) => {
            told = resolve;
        });
        const stop = await client.watch(uri, told);
        await ask('write_file', { path: 'notes/resource.txt', content: 'changed' });
        assert.equal(await within('word of the change', telling), uri);
        await stop();
        assert.equal((await client.read(uri))[0].text, 'changed');
    });
}

/** Declares cases for a client of the oldest revision, which has neither structured results nor words in progress. */
export function driveOldest(client, through) {
    const test = (name, body) => declare(`${through}: ${name}`, body);
    let sandbox;

    test('creates and runs', async () => {
        const made = await client.call('create_sandbox', { name: 'from-the-past' });
        sandbox = RESULT_TEXT(made).match(/Sandbox (\S+) \(from-the-past\): ready/)[1];
        const done = await client.call('execute_code', { sandbox_id: sandbox, code: '6 * 7' });
        assert.match(RESULT_TEXT(done), /42/);
        assert.equal(done.structuredContent, undefined);
    });
    driveLive(test, client, 'from-the-past', () => sandbox, false);
    test('close_sandbox', async () => {
        const closed = await client.call('close_sandbox', { sandbox_id: sandbox });
        assert.ok(!closed.isError, RESULT_TEXT(closed));
    });
    test('the connection closes', () => client.close());
}

/** Declares the cases for a client that knows structured results: all tools, then what takes time. */
export function drive(client, through) {
    const test = (name, body) => declare(`${through}: ${name}`, body);
    let sandbox;

    const ask = async (name, args = {}) => {
        const result = await client.call(name, args);
        assert.ok(!result.isError, `${name}: ${JSON.stringify(result)}`);
        assert.ok(result.content.length > 0, `${name} has content`);
        return result.structuredContent;
    };

    test('lists all tools', async () => {
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

    driveLive(test, client, 'from-typescript', () => sandbox, true);

    test('close_sandbox', async () => {
        const closed = await ask('close_sandbox', { sandbox_id: sandbox });
        assert.equal(closed.state, 'closed');
        const all = await ask('get_sandbox_status');
        assert.equal(all.count, 0);
    });

    test('the connection closes', () => client.close());
}
