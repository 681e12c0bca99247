// The official TypeScript client, first generation.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { needsRuntime, program, run, runtimeDirectory } from './tap.mjs';
import { drive } from './drive.mjs';

needsRuntime();
const transport = new StdioClientTransport({
    command: program,
    args: ['--runtime-dir', runtimeDirectory()],
    stderr: 'inherit',
});
const client = new Client({ name: 'sdk1', version: '1.0.0' });
await client.connect(transport);

drive({
    list: async () => (await client.listTools()).tools,
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
});
await run();
