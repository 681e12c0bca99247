// The libraries of model makers for calling MCP tools: each accepts the definitions of all our tools, and
// passes texts, pictures and errors on.

import assert from 'node:assert/strict';
import { createMCPClient } from '@ai-sdk/mcp';
import { mcpTools } from '@anthropic-ai/sdk/helpers/beta/mcp';
import { mcpToTool } from '@google/genai';
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { getAllMcpTools, MCPServerStdio, MCPServerStreamableHttp, RunContext } from '@openai/agents';
import { createRequire } from 'node:module';
import { startServer } from './server.mjs';
import { needsRuntime, program, run, runtimeDirectory, test } from './tap.mjs';

needsRuntime();
const env = { ...process.env, CLOISTER_RESULTS: 'auto' }; // as a model's client gets them
process.env.CLOISTER_RESULTS = env.CLOISTER_RESULTS;
const server = await startServer(program, ['--runtime-dir', runtimeDirectory()]);
const url = `${server.url}/mcp`;
const pipe = () => ({ command: program, args: ['--runtime-dir', runtimeDirectory()], env });

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const PICTURE = `import base64
class Dot:
    def __repr__(self):
        return 'a dot'
    def _repr_png_(self):
        return base64.b64decode('${PNG}')
open('made.txt', 'w').write('made')
Dot()`;

/** Blocks of any helper as {texts, pictures}. */
function parts(result) {
    const blocks = typeof result === 'string' ? [{ type: 'text', text: result }] : [result.content ?? result].flat();
    const pictures = blocks.map((b) => b.source?.data ?? b.data ?? b.image_url?.url?.replace('data:image/png;base64,', '')).filter(Boolean);
    return { texts: blocks.filter((b) => b.type === 'text').map((b) => b.text), pictures };
}

/** `call` gives what the helper makes of a result, and throws if that is how it tells an error. */
function see(name, open) {
    test(`${name}: text once, the picture, files as lines, state kept, errors as errors`, async () => {
        const { call, failed, close } = await open();
        assert.deepEqual(parts(await call('execute_code', { code: 'x = 6\nx * 7' })).texts, ['42']);
        assert.deepEqual(parts(await call('execute_code', { code: 'x + 1' })).texts, ['7']);
        const shown = parts(await call('execute_code', { code: PICTURE }));
        assert.equal(shown.texts[0], 'a dot');
        assert.match(shown.texts[1], /^\[made\.txt, 4 bytes: /);
        assert.deepEqual(shown.pictures, [PNG]);
        await call('write_file', { path: 'a.csv', content: 'a,b\n' });
        assert.equal(parts(await call('read_file', { path: 'a.csv' })).texts[0], 'a,b\n');
        let told;
        try {
            told = failed(await call('execute_code', { code: '1 / 0' }));
        } catch (problem) {
            told = problem.message;
        }
        assert.match(told, /ZeroDivisionError: division by zero/);
        await close();
    });
}

async function official(transport) {
    const client = new Client({ name: 'helper', version: '1' });
    await client.connect(transport);
    return { client, tools: (await client.listTools()).tools, close: () => client.close() };
}

see("Anthropic's SDK", async () => {
    const { client, tools, close } = await official(new StdioClientTransport(pipe()));
    const converted = mcpTools(tools, client);
    assert.equal(converted.length, tools.length);
    return { call: (name, args) => converted.find((tool) => tool.name === name).run(args), failed: () => assert.fail('no error'), close };
});

see("Google's SDK", async () => {
    const { client, tools, close } = await official(new StdioClientTransport(pipe()));
    const callable = mcpToTool(client);
    assert.equal((await callable.tool()).functionDeclarations.length, tools.length);
    const response = async (name, args) => (await callable.callTool([{ name, args }]))[0].functionResponse.response;
    return { call: response, failed: ({ error }) => parts(error).texts[0], close };
});

for (const [transport, make] of Object.entries({
    stdio: () => new MCPServerStdio(pipe()),
    http: () => new MCPServerStreamableHttp({ url }),
})) {
    see(`OpenAI's agents over ${transport}`, async () => {
        const mcp = make();
        await mcp.connect();
        const tools = await getAllMcpTools({ mcpServers: [mcp], convertSchemasToStrict: true });
        const call = (name, args) => tools.find((tool) => tool.name === name).invoke(new RunContext({}), JSON.stringify(args));
        return { call, failed: (result) => parts(result).texts[0], close: () => mcp.close() };
    });
}

test("OpenAI's strict mode takes every tool, and what is absent in it is null", async () => {
    const mcp = new MCPServerStdio(pipe());
    await mcp.connect();
    const tools = await getAllMcpTools({ mcpServers: [mcp], convertSchemasToStrict: true });
    assert.deepEqual(tools.filter((tool) => !tool.strict), []);
    const execute = tools.find((tool) => tool.name === 'execute_code');
    assert.deepEqual(execute.parameters.required.toSorted(), Object.keys(execute.parameters.properties).toSorted());
    const args = { ...Object.fromEntries(execute.parameters.required.map((name) => [name, null])), code: 'import os; os.environ["A"]', env: ['A=1'] };
    assert.deepEqual(parts(await execute.invoke(new RunContext({}), JSON.stringify(args))).texts, ["'1'"]);
    await mcp.close();
});

see('the AI SDK over HTTP', async () => {
    const client = await createMCPClient({ transport: { type: 'http', url } });
    const tools = await client.tools();
    const call = (name, args) => tools[name].execute(args, { toolCallId: '1', messages: [] });
    return { call, failed: (result) => (result.isError ? parts(result).texts[0] : 'no error'), close: () => client.close() };
});

see("LangChain's adapters", async () => {
    const client = new MultiServerMCPClient({ mcpServers: { cloister: { ...pipe(), transport: 'stdio' } } });
    const tools = await client.getTools();
    return { call: (name, args) => tools.find((tool) => tool.name.endsWith(name)).invoke(args), failed: () => assert.fail('no error'), close: () => client.close() };
});

see('mcp-remote, from a pipe to HTTP', async () => {
    const proxy = createRequire(import.meta.url).resolve('mcp-remote/package.json').replace('package.json', 'dist/proxy.js');
    const home = { ...env, MCP_REMOTE_CONFIG_DIR: runtimeDirectory() };
    const { client, close } = await official(new StdioClientTransport({ command: process.execPath, args: [proxy, url, '--allow-http'], env: home, stderr: 'ignore' }));
    const call = (name, args) => client.callTool({ name, arguments: args });
    return { call, failed: (result) => (result.isError ? parts(result).texts[0] : 'no error'), close };
});

test('the server ends without complaint', () => server.stop());
await run();
