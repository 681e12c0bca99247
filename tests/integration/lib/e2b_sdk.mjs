// The official SDK of E2B on the service of the environment, the tests' own or the real one: what it can do there, so can others.
//
//   node e2b_sdk.mjs life           a sandbox of its own, through all that the backend relies on
//   node e2b_sdk.mjs ID COMMAND     a command in a sandbox that somebody else has made, as root; prints what it says

import assert from 'node:assert';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const { Sandbox } = createRequire(join(process.env.CLOISTER_CLIENTS, 'package.json'))('e2b');
const [what, command] = process.argv.slice(2);

async function life() {
    const box = await Sandbox.create('base', { metadata: { owner: 'sdk' }, envs: { K: 'V' } });
    const done = await box.commands.run('for i in 1 2 3; do echo out-$i; echo err-$i >&2; done; echo $K');
    assert.deepEqual([done.stdout, done.stderr], ['out-1\nout-2\nout-3\nV\n', 'err-1\nerr-2\nerr-3\n']);
    await assert.rejects(box.commands.run('exit 7'), (problem) => problem.exitCode === 7);
    const cat = await box.commands.run('cat; echo bye', { background: true, stdin: true });
    const again = await box.commands.connect(cat.pid);
    await box.commands.sendStdin(cat.pid, 'hello\n');
    await box.commands.closeStdin(cat.pid);
    assert.match((await again.wait()).stdout, /hello\nbye\n/);
    const sleep = await box.commands.run('sleep 600', { background: true });
    assert.equal((await box.commands.list()).length, 1);
    assert.equal(await box.commands.kill(sleep.pid), true);
    await assert.rejects(sleep.wait());
    await box.files.write('/tmp/d/a.txt', 'text');
    assert.equal(await box.files.read('/tmp/d/a.txt'), 'text');
    await box.setTimeout(60000);
    const found = await Sandbox.list({ query: { metadata: { owner: 'sdk' } } }).nextItems();
    assert.deepEqual(found.map((each) => each.sandboxId), [box.sandboxId]);
    await box.pause();
    assert.equal((await Sandbox.getInfo(box.sandboxId)).state, 'paused');
    const woken = await Sandbox.connect(box.sandboxId);
    assert.equal((await woken.commands.run('cat /tmp/d/a.txt')).stdout, 'text');
    assert.equal(await woken.kill(), true);
    assert.equal(await woken.isRunning(), false);
    await assert.rejects(Sandbox.connect(box.sandboxId));
}

if (what === 'life') {
    await life();
} else {
    const box = await Sandbox.connect(what);
    process.stdout.write((await box.commands.run(command, { user: 'root' })).stdout);
}
process.exit(0);
