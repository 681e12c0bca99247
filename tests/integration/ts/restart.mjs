// Official clients of older revisions whose server is restarted: they continue their session, and find its
// sandbox.

import assert from 'node:assert/strict';
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as Sse1 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { startServer } from './server.mjs';
import { needsRuntime, program, run, runtimeDirectory, test, within } from './tap.mjs';

needsRuntime();
const options = ['--runtime-dir', runtimeDirectory()];
let server = await startServer(program, options);
const { url } = server;

async function restart() {
    await server.stop();
    server = await startServer(program, options, new URL(url).port);
}

/** The text of the result of code; an error is thrown. */
async function evaluate(client, code) {
    const result = await client.callTool({ name: 'execute_code', arguments: { code } });
    assert.ok(!result.isError, JSON.stringify(result));
    return result.content[0].text;
}

const name = { name: 'restart', version: '1.0.0' };
const http = new URL(`${url}/mcp`);
const clients = {
    'sdk1, http': [new Client1(name), () => new Http1(http)],
    'sdk2, http': [new Client2(name, { versionNegotiation: { mode: 'legacy' } }), () => new Http2(http)],
};
for (const [which, [client, transport]] of Object.entries(clients)) {
    test(`${which}: goes on after a restart, with its variables`, async () => {
        await client.connect(transport());
        await evaluate(client, 'x = 6');
        await restart();
        assert.match(await evaluate(client, 'x * 7'), /42/);
        assert.ok((await client.listTools()).tools.length > 5);
        await client.close();
    });
}
test('sdk1, sse: goes on after a restart, once it has opened its stream again', async () => {
    const client = new Client1(name);
    await client.connect(new Sse1(new URL(`${url}/sse`)));
    await evaluate(client, 'x = 6');
    await restart();
    await within('an answer', (async () => {
        for (;;) {
            try {
                return assert.match(await evaluate(client, '"again"'), /again/);
            } catch (problem) {
                // while it posts to the lost stream
                assert.match(String(problem), /404|ECONNREFUSED|ECONNRESET|fetch failed/);
            }
        }
    })());
    await client.close();
});
test('LangChain: goes on after a restart, with its variables', async () => {
    const client = new MultiServerMCPClient({ mcpServers: { cloister: { transport: 'http', url: http.href } } });
    const execute = (await client.getTools()).find((tool) => tool.name.endsWith('execute_code'));
    await execute.invoke({ code: 'x = 6' });
    await restart();
    assert.match(JSON.stringify(await execute.invoke({ code: 'x * 7' })), /42/);
    await client.close();
});
test('the server ends without complaint', () => server.stop());
await run();
