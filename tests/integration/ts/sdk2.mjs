// The official TypeScript client, second generation, in each era and over both of its transports.

import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { drive } from './drive.mjs';
import { startServer } from './server.mjs';
import { needsRuntime, program, run, runtimeDirectory, test } from './tap.mjs';

needsRuntime();
const server = await startServer(program, ['--runtime-dir', runtimeDirectory()]);
const transports = {
    stdio: () => new StdioClientTransport({ command: program, args: ['--runtime-dir', runtimeDirectory(), '--results', 'structured'], stderr: 'inherit' }),
    http: () => new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)),
};
const modes = [
    { name: 'legacy', mode: 'legacy', era: 'legacy' },
    { name: 'auto', mode: 'auto', era: 'modern' },
    { name: 'pinned', mode: { pin: '2026-07-28' }, era: 'modern' },
];

for (const [transport, make] of Object.entries(transports)) {
    for (const { name, mode, era } of modes) {
        const client = new Client({ name: 'sdk2', version: '1.0.0' }, { versionNegotiation: { mode } });
        test(`${transport}, ${name}: agrees on the ${era} era`, async () => {
            await client.connect(make());
            assert.equal(client.getProtocolEra(), era);
        });
        drive(
            {
                list: async () => (await client.listTools()).tools,
                call: (tool, args, options) => client.callTool({ name: tool, arguments: args }, options),
                read: async (uri) => (await client.readResource({ uri })).contents,
                watch: async (uri, told) => {
                    client.setNotificationHandler('notifications/resources/updated', (note) => told(note.params.uri));
                    if (era === 'legacy') {
                        await client.subscribeResource({ uri });
                        return () => client.unsubscribeResource({ uri });
                    }
                    const listening = await client.listen({ resourceSubscriptions: [uri] });
                    assert.deepEqual(listening.honoredFilter.resourceSubscriptions, [uri]);
                    return () => listening.close();
                },
                close: () => client.close(),
            },
            `${transport}, ${name}`,
        );
    }
}
test('the server ends without complaint', () => server.stop());
await run();
