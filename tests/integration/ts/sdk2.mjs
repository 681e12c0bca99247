// The official TypeScript client, second generation: once in each era.

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { needsRuntime, program, run, runtimeDirectory, test } from './tap.mjs';
import { drive } from './drive.mjs';

needsRuntime();

for (const [mode, era] of [['legacy', 'legacy'], ['auto', 'modern']]) {
    const transport = new StdioClientTransport({
        command: program,
        args: ['--runtime-dir', runtimeDirectory()],
        stderr: 'inherit',
    });
    const client = new Client({ name: 'sdk2', version: '1.0.0' }, { versionNegotiation: { mode } });
    test(`mode ${mode} agrees on the ${era} era`, async () => {
        await client.connect(transport);
        assert.equal(client.getProtocolEra(), era);
    });
    drive({
        list: async () => (await client.listTools()).tools,
        call: (name, args) => client.callTool({ name, arguments: args }),
        close: () => client.close(),
    });
}
await run();
