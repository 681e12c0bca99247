// Tasks of 2025-11-25 with the official TypeScript client, first generation: it polls, fetches results, and
// answers questions that come while it waits. Against the fixture.

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { startServer } from './server.mjs';
import { run, test } from './tap.mjs';

const program = process.env.FIXTURE;
const server = await startServer(program);
const transports = {
    stdio: () => new StdioClientTransport({ command: program, args: [], stderr: 'inherit' }),
    http: () => new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)),
};

for (const [name, make] of Object.entries(transports)) {
    const client = new Client({ name: 'tasks1', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } });
    const asked = [];
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
        asked.push(params);
        return { action: 'accept', content: { name: 'Ada', confirm: true } };
    });

    /** Calls a tool as a task; what the client tells of it, by kind, the last of each. */
    async function call(tool, args = {}) {
        const told = { states: [] };
        const stream = client.experimental.tasks.callToolStream({ name: tool, arguments: args }, CallToolResultSchema, {
            task: { ttl: 60000 },
        });
        for await (const message of stream) {
            told[message.type] = message;
            if (message.task) {
                told.states.push(message.task.status);
            }
        }
        return told;
    }

    test(`${name}: a task is polled until its result is there`, async () => {
        await client.connect(make());
        const { tools } = await client.listTools();
        assert.equal(tools.find((tool) => tool.name === 'slow_compute').execution.taskSupport, 'optional');
        const told = await call('slow_compute', { seconds: 1, label: 'one' });
        assert.equal(told.taskCreated.task.ttl, 60000);
        assert.equal(told.states.at(-1), 'completed');
        assert.match(told.result.result.content[0].text, /one/);
    });
    test(`${name}: a task asks while its result is waited for`, async () => {
        const told = await call('multi_input');
        assert.ok(told.states.includes('input_required'));
        assert.equal(asked.length, 2);
        for (const { _meta } of asked) {
            assert.equal(_meta['io.modelcontextprotocol/related-task'].taskId, told.taskCreated.task.taskId);
        }
        assert.match(told.result.result.content[0].text, /Ada agrees/);
    });
    test(`${name}: failures are failed tasks`, async () => {
        for (const tool of ['failing_job', 'protocol_error_job']) {
            const told = await call(tool);
            assert.equal(told.states.at(-1), 'failed');
        }
        await assert.rejects(client.callTool({ name: 'greet', arguments: { name: 'x' }, task: { ttl: 1 } }), /-32601/);
    });
    test(`${name}: a task is cancelled, and all are listed`, async () => {
        const before = await client.experimental.tasks.listTasks();
        const stream = client.experimental.tasks.callToolStream({ name: 'slow_compute', arguments: { seconds: 600 } }, CallToolResultSchema, {
            task: { ttl: 60000 },
        });
        const { value } = await stream.next();
        const cancelled = await client.experimental.tasks.cancelTask(value.task.taskId);
        assert.equal(cancelled.status, 'cancelled');
        const after = await client.experimental.tasks.listTasks();
        assert.equal(after.tasks.length, before.tasks.length + 1);
        assert.equal(after.tasks.at(-1).status, 'cancelled');
        await client.close();
    });
}
test('the server ends without complaint', () => server.stop());
await run();
