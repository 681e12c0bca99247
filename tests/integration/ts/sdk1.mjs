// The official TypeScript client, first generation, over each of its transports.

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { WAITING_CODE, drive } from './drive.mjs';
import { startProxy } from './proxy.mjs';
import { startServer } from './server.mjs';
import { needsRuntime, program, run, runtimeDirectory, test, within } from './tap.mjs';

needsRuntime();
const server = await startServer(program, ['--runtime-dir', runtimeDirectory()]);
const transports = {
    stdio: () => new StdioClientTransport({ command: program, args: ['--runtime-dir', runtimeDirectory(), '--results', 'structured'], stderr: 'inherit' }),
    http: () => new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)),
    sse: () => new SSEClientTransport(new URL(`${server.url}/sse`)),
};

/** A sandbox in which code waits for the word to end. */
async function waitingCode(client) {
    const tell = async (tool, args) => {
        const result = await client.callTool({ name: tool, arguments: args });
        assert.ok(!result.isError, JSON.stringify(result));
        return result.structuredContent;
    };
    const { sandbox_id } = await tell('create_sandbox', {});
    return {
        call: { name: 'execute_code', arguments: { sandbox_id, code: WAITING_CODE } },
        go: () => tell('write_file', { sandbox_id, path: 'go.txt', content: '' }),
        close: () => tell('close_sandbox', { sandbox_id }),
    };
}

for (const [name, make] of Object.entries(transports)) {
    const client = new Client({ name: 'sdk1', version: '1.0.0' });
    let transport;
    test(`${name}: connects`, async () => {
        transport = make();
        await client.connect(transport);
        assert.equal(client.getServerVersion().name, 'cloister');
        if (name === 'http') {
            assert.match(transport.sessionId, /^[\x21-\x7e]{22,}$/);
        }
    });
    test(`${name}: a call as a task`, async () => {
        const waiting = await waitingCode(client);
        const states = [];
        let result;
        for await (const message of client.experimental.tasks.callToolStream(waiting.call, undefined, { task: { ttl: 60000 } })) {
            states.push(message.type === 'taskStatus' ? message.task.status : message.type);
            if (message.type === 'taskCreated') {
                assert.equal((await client.experimental.tasks.getTask(message.task.taskId)).status, 'working');
                await waiting.go();
            }
            assert.notEqual(message.type, 'error', String(message.error));
            result = message.result;
        }
        assert.equal(states[0], 'taskCreated', states.join());
        assert.equal(result?.structuredContent?.stdout, 'a line at once\nthe last line\n', states.join());
        await waiting.close();
    });
    drive(
        {
            list: async () => (await client.listTools()).tools,
            call: (tool, args, options) => client.callTool({ name: tool, arguments: args }, undefined, options),
            read: async (uri) => (await client.readResource({ uri })).contents,
            watch: async (uri, told) => {
                client.setNotificationHandler(ResourceUpdatedNotificationSchema, (note) => told(note.params.uri));
                await client.subscribeResource({ uri });
                return () => client.unsubscribeResource({ uri });
            },
            close: async () => {
                if (name === 'http') {
                    const ended = transport.sessionId;
                    await transport.terminateSession();
                    const late = await fetch(`${server.url}/mcp`, {
                        method: 'POST',
                        headers: {
                            'Content-Type': 'application/json',
                            Accept: 'application/json, text/event-stream',
                            'Mcp-Session-Id': ended,
                        },
                        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
                    });
                    assert.equal(late.status, 404, await late.text());
                }
                await client.close();
            },
        },
        name,
    );
}
test('http: an answer outlives the connection of its call', async () => {
    const proxy = await startProxy(server.url);
    const client = new Client({ name: 'sdk1', version: '1.0.0' });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${proxy.url}/mcp`)));
    const waiting = await waitingCode(client);
    const cut = proxy.cutNextStream();
    const back = proxy.seen((request) => request.method === 'GET' && request.headers['last-event-id']);
    const running = client.callTool(waiting.call);
    await within('the cut', cut);
    await within('the client to come back', back);
    await waiting.go();
    assert.equal((await within('the answer', running)).structuredContent.stdout, 'a line at once\nthe last line\n');
    await waiting.close();
    await client.close();
    await proxy.close();
});
test('the server ends without complaint', () => server.stop());
await run();
