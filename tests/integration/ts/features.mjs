// Features of the protocol layer that cloister does not use itself, with the official clients on the fixture:
// questions to the user, to the client's model and for its roots, prompts, completion, logging, changes of
// lists.

import assert from 'node:assert/strict';
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    LoggingMessageNotificationSchema,
    PromptListChangedNotificationSchema,
    ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { startServer } from './server.mjs';
import { run, test, within } from './tap.mjs';

const program = process.env.FIXTURE;
const server = await startServer(program);
const stdio = { command: program, args: [], stderr: 'inherit' };
const http = new URL(`${server.url}/mcp`);
const capabilities = { elicitation: {}, sampling: {}, roots: {} };
// the first generation registers handlers by schemas, the second by methods
const SCHEMAS = {
    'elicitation/create': ElicitRequestSchema,
    'sampling/createMessage': CreateMessageRequestSchema,
    'roots/list': ListRootsRequestSchema,
    'notifications/message': LoggingMessageNotificationSchema,
    'notifications/tools/list_changed': ToolListChangedNotificationSchema,
    'notifications/prompts/list_changed': PromptListChangedNotificationSchema,
};

function client2(mode) {
    return new Client2({ name: 'features', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
}

const ways = {
    'sdk1, stdio': [() => new Client1({ name: 'features', version: '1.0.0' }, { capabilities }), () => new Stdio1(stdio)],
    'sdk1, http': [() => new Client1({ name: 'features', version: '1.0.0' }, { capabilities }), () => new Http1(http)],
    'sdk1, sse': [() => new Client1({ name: 'features', version: '1.0.0' }, { capabilities }), () => new SSEClientTransport(new URL(`${server.url}/sse`))],
    'sdk2, stdio, legacy': [() => client2('legacy'), () => new Stdio2(stdio)],
    'sdk2, stdio, modern': [() => client2('auto'), () => new Stdio2(stdio)],
    'sdk2, http, legacy': [() => client2('legacy'), () => new Http2(http)],
    'sdk2, http, modern': [() => client2('auto'), () => new Http2(http)],
};

/** Answers to every form of the fixture. */
const FORM = { name: 'Alice', color: 'blue', ok: true, context: 'a rainy day', username: 'alice', email: 'alice@example.com' };

for (const [name, [makeClient, makeTransport]] of Object.entries(ways)) {
    const client = makeClient();
    const modern = name.endsWith('modern');
    const named = (method) => (client instanceof Client1 ? SCHEMAS[method] : method);
    const asked = []; // methods, in order
    const text = async (tool, args = {}) => {
        const result = await within(tool, client.callTool({ name: tool, arguments: args }));
        assert.ok(!result.isError, JSON.stringify(result));
        return result.content[0].text;
    };
    let accepts = true;

    test(`${name}: connects`, async () => {
        client.setRequestHandler(named('elicitation/create'), (request) => {
            asked.push('elicitation/create');
            const fields = Object.keys(request.params.requestedSchema.properties);
            return accepts
                ? { action: 'accept', content: Object.fromEntries(Object.entries(FORM).filter(([field]) => fields.includes(field))) }
                : { action: 'decline' };
        });
        client.setRequestHandler(named('sampling/createMessage'), () => {
            asked.push('sampling/createMessage');
            return { role: 'assistant', model: 'none', content: { type: 'text', text: 'Paris' } };
        });
        client.setRequestHandler(named('roots/list'), () => {
            asked.push('roots/list');
            return { roots: [{ uri: 'file:///home/alice' }] };
        });
        await client.connect(makeTransport());
    });

    test(`${name}: asks the user`, async () => {
        assert.equal(await text('test_input_required_result_elicitation'), 'Hello, Alice!');
        assert.match(await text('test_elicitation', { message: 'Who are you?' }), /action=accept.*alice@example\.com/);
        accepts = false;
        assert.equal(await text('test_input_required_result_elicitation'), 'Hello, nobody!');
        accepts = true;
    });

    test(`${name}: asks the client's model, and for its roots`, async () => {
        assert.equal(await text('test_sampling', { prompt: 'The capital of France?' }), 'LLM response: Paris');
        assert.match(await text('test_input_required_result_list_roots'), /1 roots.*file:\/\/\/home\/alice/);
    });

    test(`${name}: asks in rounds, and remembers`, async () => {
        asked.length = 0;
        assert.equal(await text('test_input_required_result_multi_round'), 'Alice likes blue.');
        assert.deepEqual(asked, ['elicitation/create', 'elicitation/create']);
        assert.equal(await text('test_input_required_result_request_state'), 'state-ok');
        asked.length = 0;
        assert.equal(await text('test_input_required_result_multiple_inputs'), 'Paris Alice, with 1 roots');
        assert.deepEqual(asked.sort(), ['elicitation/create', 'roots/list', 'sampling/createMessage']);
    });

    test(`${name}: prompts and completion`, async () => {
        const { prompts } = await client.listPrompts();
        assert.ok(prompts.some((prompt) => prompt.name === 'test_prompt_with_arguments'));
        const made = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } });
        assert.match(made.messages[0].content.text, /arg1='a', arg2='b'/);
        const asking = await client.getPrompt({ name: 'test_input_required_result_prompt' });
        assert.equal(asking.messages[0].content.text, 'Context: a rainy day');
        await assert.rejects(client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a' } }));
        const { completion } = await client.complete({
            ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
            argument: { name: 'arg1', value: 'par' },
        });
        assert.deepEqual(completion.values, ['paris', 'park', 'party']);
    });

    test(`${name}: logs to who wants to know`, async () => {
        const messages = [];
        client.setNotificationHandler(named('notifications/message'), (note) => {
            messages.push(note.params.data);
        });
        const params = { name: 'test_tool_with_logging', arguments: {} };
        if (modern) {
            await client.callTool(params);
            assert.deepEqual(messages, [], 'nobody asked');
            params._meta = { 'io.modelcontextprotocol/logLevel': 'info' };
        } else {
            await client.setLoggingLevel('warning');
            await client.callTool(params);
            assert.deepEqual(messages, [], 'nobody asked for this level');
            await client.setLoggingLevel('info');
        }
        await client.callTool(params);
        assert.deepEqual(messages, ['Tool execution started', 'Tool processing data', 'Tool execution completed']);
    });

    for (const list of ['tools', 'prompts']) {
        test(`${name}: tells that the list of ${list} has changed`, async () => {
            let told;
            const telling = new Promise((resolve) => {
                told = resolve;
            });
            client.setNotificationHandler(named(`notifications/${list}/list_changed`), told);
            const listening = modern ? await client.listen({ [`${list}ListChanged`]: true }) : undefined;
            const count = async () => (list === 'tools' ? (await client.listTools()).tools : (await client.listPrompts()).prompts).length;
            const before = await count();
            await text(`test_trigger_${list.slice(0, -1)}_change`);
            await within('word of the change', telling);
            assert.equal(Math.abs((await count()) - before), 1);
            await listening?.close();
        });
    }

    test(`${name}: closes`, () => client.close());
}
test('the server ends without complaint', () => server.stop());
await run();
