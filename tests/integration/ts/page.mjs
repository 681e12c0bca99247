// The page at /ui/, in a real browser: who gets in, what one sees, what one can do, and what a page of strangers cannot.
// With PAGE_PICTURES=DIRECTORY it also makes the pictures of the documents.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { chromium } from 'playwright-core';
import { startServer } from './server.mjs';
import { needsRuntime, program, run, runtimeDirectory, test } from './tap.mjs';

const STRANGER = 'stranger.test';
const PATIENCE_MS = 120000; // as tests/lib/tap.py
const BROWSERS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const PLOT = `import base64
class Plot:
    def _repr_png_(self):
        return base64.b64decode('${PNG}')
Plot()`;

needsRuntime();
const executablePath = BROWSERS.find((path) => path && existsSync(path));
if (!executablePath) {
    console.log('1..0 # SKIP no Chromium on this machine');
    process.exit(0);
}

const place = runtimeDirectory();
const tokens = join(place, 'tokens');
writeFileSync(tokens, 'alice alice-secret-alice-secret\nroot root-secret-root-secret-root admin=yes\n', { mode: 0o600 });
const server = await startServer(program, ['--runtime-dir', place, '--tokens', tokens]);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage', `--host-resolver-rules=MAP ${STRANGER} 127.0.0.1`] });

const options = { viewport: { width: 1200, height: 900 } };

/** A new browser session at the page, with what it has complained of. */
async function open(more = {}) {
    const context = await browser.newContext({ ...options, ...more });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    const complaints = [];
    // the browser itself notes each status, as of a sandbox that has just ended
    page.on('console', (message) => message.type() === 'error' && !/status of 40[14]/.test(message.text()) && complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(`${server.url}/ui/`);
    return { context, page, complaints };
}

async function signIn(page, token = 'root-secret-root-secret-root') {
    await page.getByLabel(/Token of a principal/).fill(token);
    await page.getByRole('button', { name: 'Show the server' }).click();
}

async function openAsRoot(more) {
    const opened = await open(more);
    await signIn(opened.page);
    await opened.page.getByRole('tab', { name: 'Sandboxes' }).waitFor();
    return opened;
}

/** A user of the server, with a sandbox. */
async function user(name) {
    const client = new Client({ name: 'page', version: '1' });
    const headers = { Authorization: 'Bearer alice-secret-alice-secret' };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit: { headers } }));
    const call = async (tool, args) =>
        (await client.callTool({ name: tool, arguments: args }, undefined, { timeout: PATIENCE_MS })).structuredContent;
    const { sandbox_id } = await call('create_sandbox', { name });
    return {
        sandbox: sandbox_id,
        execute: (code, more = {}) => call('execute_code', { sandbox_id, code, ...more }),
        call,
        async leave() {
            await call('close_sandbox', { sandbox_id });
            await client.close();
        },
    };
}

const choose = (page, name) => page.getByRole('button', { name: new RegExp(name) }).first().click();

test('who has no token, or not one of an operator, sees nothing of the server and is told why', async () => {
    const { page, context } = await open();
    await page.getByRole('heading', { name: 'A token is needed' }).waitFor();
    assert.equal(await page.getByRole('tab').count(), 0);
    await signIn(page, 'alice-secret-alice-secret');
    await page.getByText(/admin=yes in the line of this principal/).waitFor();
    await signIn(page, 'nobody-knows-this-token');
    await page.locator('#login-why').filter({ hasNotText: 'admin=yes' }).filter({ hasText: /token/ }).waitFor();
    assert.equal(await page.getByRole('tab').count(), 0);
    await signIn(page);
    await page.getByRole('tab', { name: 'Sandboxes' }).waitFor();
    await context.close();
});

test('a sandbox appears with its owner and state, and its output while code runs; HTML in it is text', async () => {
    const { page, context, complaints } = await openAsRoot();
    const alice = await user('watched');
    const row = page.getByRole('row', { name: /watched/ });
    await row.getByText('ready').waitFor();
    assert.match(await row.innerText(), /alice/);
    const ended = alice.execute('import time\nprint("<img src=x onerror=alert(1)>", flush=True)\nwhile True: time.sleep(0.1)', { timeout_seconds: 600 });
    await choose(page, 'watched');
    await page.locator('#output').getByText('<img src=x onerror=alert(1)>').waitFor();
    assert.equal(await page.locator('#output img').count(), 0);
    await page.locator('#stop:enabled').click();
    assert.equal((await ended).status, 'cancelled');
    await page.locator('#output').getByText('[cancelled]').waitFor();
    await row.locator('svg.curve path[d]').first().waitFor({ state: 'attached' });
    await alice.leave();
    await row.waitFor({ state: 'detached' });
    assert.deepEqual(complaints, []);
    await context.close();
});

test('a plot is shown, and an error with its traceback', async () => {
    const { page, context } = await openAsRoot();
    const alice = await user('plotted');
    await alice.execute(PLOT);
    await choose(page, 'plotted');
    const picture = page.getByRole('img', { name: /^picture that/ });
    await picture.waitFor();
    assert.equal(await picture.evaluate((img) => img.decode().then(() => img.naturalWidth)), 1);
    await alice.execute('1 / 0');
    await page.locator('#executions button').nth(1).waitFor();
    await page.locator('#executions button').first().click();
    await page.locator('#output').getByText(/ZeroDivisionError/).waitFor();
    await alice.leave();
    await context.close();
});

test('a sandbox is closed only after a question, and its owner finds it gone', async () => {
    const { page, context } = await openAsRoot();
    const alice = await user('closed');
    await choose(page, 'closed');
    await page.getByRole('button', { name: 'Close the sandbox' }).click();
    await page.getByRole('button', { name: 'Keep it' }).click();
    assert.equal((await alice.execute('6 * 7')).result, '42');
    await page.getByRole('button', { name: 'Close the sandbox' }).click();
    await page.getByRole('button', { name: 'Close it' }).click();
    await page.getByRole('row', { name: /closed/ }).waitFor({ state: 'detached' });
    assert.equal((await alice.execute('1')).error.code, 'sandbox_not_found');
    await context.close();
});

test('workers and events are shown, and everything is reached by keyboard', async () => {
    const { page, context } = await openAsRoot();
    const alice = await user('typed');
    await page.getByRole('row', { name: /typed/ }).waitFor();
    await page.getByRole('tab', { name: 'Sandboxes' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('row', { name: new RegExp(alice.sandbox) }).getByText('alice').waitFor();
    await page.keyboard.press('ArrowRight');
    await page.locator('#event-list li').filter({ hasText: alice.sandbox }).first().waitFor();
    await page.keyboard.press('ArrowRight'); // round to the first
    await page.getByRole('button', { name: /typed/ }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: /typed/ }).waitFor();
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, [role=tab], section:not([hidden])')]
        .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length)).map((e) => e.outerHTML));
    assert.deepEqual(nameless, []);
    await alice.leave();
    await context.close();
});

test('it fits a phone, and follows the colours that the person prefers', async () => {
    const { page, context } = await openAsRoot({ viewport: { width: 360, height: 740 } });
    const alice = await user('a-rather-long-name-of-a-sandbox-that-has-to-be-wrapped');
    await choose(page, 'a-rather-long');
    await page.locator('#facts dd').first().waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.emulateMedia({ colorScheme: 'light' });
    const light = await ground();
    await page.emulateMedia({ colorScheme: 'dark' });
    assert.notEqual(await ground(), light);
    await alice.leave();
    await context.close();
});

test('with 1,000 sandboxes a change touches one row, and only rows on the screen are measured', async () => {
    const { page, context } = await open();
    const sandbox = (i) => ({
        sandbox_id: `s${i}`, name: '', owner: `user${i % 7}`, state: 'ready', executions: i, created_at: '2026-01-01T00:00:00Z',
        limits: { memory_mb: 512, cpus: 1, pids: 256, unapplied: [] }, languages: [], worker: { pid: 1, restarts: 0 }, executions_recent: [],
        usage: { memory_bytes: 1e7, cpu_ms: 1, processes: 1, disk_bytes: 0 },
    });
    const all = Array.from({ length: 1000 }, (_, i) => sandbox(i));
    let lists = 0;
    const measured = new Set();
    await page.route('**/api/v1/sandboxes', (route) => {
        lists++;
        route.fulfill({ json: { sandboxes: all } });
    });
    await page.route('**/api/v1/sandboxes/*', (route) => {
        measured.add(route.request().url().split('/').pop());
        route.fulfill({ json: all[Number(route.request().url().split('/s').pop())] });
    });
    await signIn(page);
    await page.locator('#list tbody tr:nth-child(1000)').waitFor({ state: 'attached' });
    await page.evaluate(() => {
        window.touched = new Set();
        new MutationObserver((changes) => {
            for (const change of changes) {
                const row = change.target.parentElement?.closest('tr') ?? change.target.closest?.('tr');
                if (row && !change.target.parentElement?.closest('.measure, .number') && !change.target.closest?.('.measure, .number')) window.touched.add(row.dataset.id);
            }
        }).observe(document.querySelector('#list tbody'), { subtree: true, childList: true, characterData: true });
    });
    all[500].state = 'failed';
    const before = lists;
    await page.getByRole('row', { name: /s500 / }).getByText('failed').waitFor({ state: 'attached' });
    assert.ok(lists > before);
    assert.deepEqual(await page.evaluate(() => [...window.touched]), ['s500']);
    await page.locator('#list tbody tr:first-child svg path[d]').first().waitFor({ state: 'attached' });
    assert.ok(measured.size < 100, `${measured.size} were measured`);
    await page.getByLabel('Filter').fill('failed');
    assert.equal(await page.locator('#list tbody tr:visible').count(), 1);
    await context.close();
});

test('a page of strangers can neither read the API, nor frame the page, nor act in a person\'s name', async () => {
    const { page, context } = await openAsRoot();
    const policy = (await page.request.get(`${server.url}/ui/`)).headers()['content-security-policy'];
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /unsafe/);
    const stranger = createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end(`<iframe src="${server.url}/ui/"></iframe>`));
    await new Promise((ready) => stranger.listen(0, '127.0.0.1', ready));
    const other = await context.newPage();
    await other.goto(`http://${STRANGER}:${stranger.address().port}/`);
    const attempts = await other.evaluate(async (url) => {
        const read = await fetch(`${url}/api/v1/sandboxes`).then((a) => a.status, () => 'refused');
        const act = await fetch(`${url}/api/v1/sandboxes/x`, { method: 'DELETE', headers: { Authorization: 'Bearer root-secret-root-secret-root' } })
            .then((a) => a.status, () => 'refused');
        return { read, act };
    }, server.url);
    assert.deepEqual(attempts, { read: 'refused', act: 'refused' });
    for (const frame of other.frames()) { // the browser shows an error in its place
        assert.equal(await frame.getByText('A token is needed').count(), 0);
    }
    await new Promise((done) => stranger.close(done));
    await context.close();
});

test('`cloister ui` shows the page of a server on stdio, to who has its address, until it ends', async () => {
    const here = runtimeDirectory();
    const client = new Client({ name: 'page', version: '1' });
    await client.connect(new StdioClientTransport({ command: program, args: ['--runtime-dir', here], env: process.env }));
    await client.callTool({ name: 'create_sandbox', arguments: { name: 'piped' } }, undefined, { timeout: PATIENCE_MS });
    const shower = spawn(program, ['ui', '--runtime-dir', here, '--format', 'json'], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(shower, 'exit');
    const [line] = await once(createInterface({ input: shower.stdout }), 'line');
    const url = new URL(JSON.parse(line).url);
    const context = await browser.newContext(options);
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    await page.goto(url.href);
    await page.getByRole('row', { name: /piped/ }).waitFor();
    assert.equal(new URL(page.url()).hash, '');
    const other = await (await browser.newContext()).newPage();
    await other.goto(`${url.origin}/ui/`);
    await other.getByRole('heading', { name: 'A token is needed' }).waitFor();
    assert.equal((await fetch(`${url.origin}/api/v1/sandboxes`)).status, 401);
    assert.equal((await fetch(`${url.origin}/mcp`, { method: 'POST' })).status, 401);
    shower.kill('SIGINT');
    await ended;
    await page.getByText(/does not answer|cannot be reached/).waitFor();
    await assert.rejects(fetch(`${url.origin}/ui/`));
    await other.context().close();
    await context.close();
    await client.close();
});

const CURVE = `import math
class Fit:
    def _repr_svg_(self):
        points = [(x, 110 - 80 * math.exp(-x / 90) * math.cos(x / 14)) for x in range(0, 360, 3)]
        path = 'M' + 'L'.join(f'{x + 40:.1f} {y:.1f}' for x, y in points)
        return ('<svg xmlns="http://www.w3.org/2000/svg" width="430" height="220" font-family="sans-serif" font-size="11">'
                '<rect width="430" height="220" fill="white"/><path d="M40 10V200H410" fill="none" stroke="#888"/>'
                f'<path d="{path}" fill="none" stroke="#0b5cad" stroke-width="2"/><text x="190" y="215">seconds</text></svg>')
for epoch in range(1, 6):
    print(f'epoch {epoch}: loss {math.exp(-epoch / 2):.4f}')
Fit()`;

if (process.env.PAGE_PICTURES) {
    test('pictures for the documents', async () => {
        const { page, context } = await openAsRoot();
        const users = [await user('report'), await user('training'), await user('cleanup')];
        await users[0].execute('sum(range(10 ** 6))');
        await users[2].execute('x = bytearray(60 << 20)');
        for (let i = 0; i < 12; i++) {
            await users[1].execute(`import time\nend = time.time() + ${0.3 + (i % 4) * 0.5}\nwhile time.time() < end: pass\nkept = bytearray(${1 + (i % 5) * 12} << 20)`);
        }
        await users[1].execute(CURVE);
        await choose(page, 'training');
        await page.getByRole('img', { name: /^picture that/ }).waitFor();
        await page.screenshot({ path: join(process.env.PAGE_PICTURES, 'page.png'), fullPage: true });
        for (const each of users) {
            await each.leave();
        }
        await context.close();
    });
}

test('when the server goes away the page says so, and nothing of a token is kept after it was forgotten', async () => {
    const { page, context } = await openAsRoot();
    await page.getByRole('button', { name: 'Forget the token' }).click();
    await page.getByRole('heading', { name: 'A token is needed' }).waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length + localStorage.length + document.cookie.length), 0);
    await signIn(page);
    await page.getByText('live').waitFor();
    await server.stop();
    await page.getByText(/does not answer|cannot be reached/).waitFor();
    await context.close();
});

await run();
await browser.close();
