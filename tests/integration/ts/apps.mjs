// The view of results (MCP Apps) in a real browser, held by the extension's reference bridge: plots side by side, tables that sort, HTML in
// a frame without network, colours, and bytes of code that are nothing but text.

import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { chromium } from 'playwright-core';
import { rolldown } from 'rolldown';
import { needsRuntime, program, run, runtimeDirectory, test } from './tap.mjs';

const UI = 'io.modelcontextprotocol/ui';
const TYPE = 'text/html;profile=mcp-app';
const FIELDS = 'cloister/fields';
const PATIENCE_MS = 120000; // as tests/lib/tap.py
const BROWSERS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

needsRuntime();
const executablePath = BROWSERS.find((path) => path && existsSync(path));
if (!executablePath) {
    console.log('1..0 # SKIP no Chromium on this machine');
    process.exit(0);
}

// ---- the host -----------------------------------------------------------------------------------

const here = dirname(fileURLToPath(import.meta.url));
const bundle = await rolldown({ input: join(here, 'apps_host.mjs'), platform: 'browser' });
const { output: [hostScript] } = await bundle.generate({ format: 'esm' });

// What the extension says of a view whose lists of addresses are empty.
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; " +
    "font-src 'self'; connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'";
// The outer frame: makes the inner one, and passes messages on between its own two neighbours only.
const PROXY = `<!doctype html><style>html, body, iframe { margin: 0; width: 100%; height: 100%; border: 0 }</style><script>
const frame = document.createElement('iframe');
frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms');
document.body.append(frame);
addEventListener('message', ({ source, data }) => {
    if (source === parent && data.method === 'ui/notifications/sandbox-resource-ready') {
        frame.contentDocument.open();
        frame.contentDocument.write(data.params.html);
        frame.contentDocument.close();
    } else if (source === parent) frame.contentWindow.postMessage(data, '*');
    else if (source === frame.contentWindow) parent.postMessage(data, '*');
});
parent.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/sandbox-proxy-ready', params: {} }, '*');
</script>`.replace('<script>', '<body><script>');

async function serve(answers) {
    const asked = [];
    const server = createServer((request, answer) => {
        asked.push(request.url);
        const [type, text, headers] = answers[request.url] ?? ['text/plain', ''];
        answer.writeHead(200, { 'Content-Type': type, ...headers }).end(text);
    });
    await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
    server.unref();
    return { url: `http://127.0.0.1:${server.address().port}`, asked };
}

const hostSite = await serve({
    '/': ['text/html', '<!doctype html><script type="module" src="/host.js"></script><body>'],
    '/host.js': ['text/javascript', hostScript.code],
});
const proxySite = await serve({ '/': ['text/html', PROXY, { 'Content-Security-Policy': POLICY }] });
const stranger = await serve({});
const stun = createSocket('udp4', () => stranger.asked.push('a packet')).unref();
stun.bind(0, '127.0.0.1');
await once(stun, 'listening');
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });

const client = new Client({ name: 'host', version: '1' }, { capabilities: { extensions: { [UI]: { mimeTypes: [TYPE] } } } });
await client.connect(new StdioClientTransport({ command: program, args: ['--runtime-dir', runtimeDirectory()], env: { ...process.env, CLOISTER_RESULTS: 'text' }, stderr: 'ignore' }));
const { tools } = await client.listTools();

const call = (code) => client.callTool({ name: 'execute_code', arguments: { code } }, { timeout: PATIENCE_MS });

/** Runs code, and shows what came of it as the host does, or what `changed` makes of that. */
async function shown(code, { theme = 'light', width = 900, changed = (result) => result } = {}) {
    const context = await browser.newContext({ viewport: { width, height: 900 } });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    const complaints = [];
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.exposeFunction('ask', (method, params) => client.readResource(params));
    await page.goto(`${hostSite.url}/`);
    const uri = await page.evaluate((tool) => window.viewOf(tool), tools.find((tool) => tool.name === 'execute_code'));
    const { contents: [document] } = await client.readResource({ uri });
    assert.equal(document.mimeType, TYPE);
    const app = await page.evaluate((view) => window.showView(view), { html: document.text, csp: document._meta.ui.csp, proxy: `${proxySite.url}/`, theme });
    assert.equal(app.name, 'cloister-result');
    const result = changed(await call(code));
    await page.evaluate(async ([input, output]) => {
        await window.bridge.sendToolInput({ arguments: input });
        await window.bridge.sendToolResult(output);
    }, [{ code }, result]);
    const view = page.frameLocator('#proxy').frameLocator('iframe');
    await view.locator('main[aria-busy=false]').waitFor();
    return { page, view, result, complaints, close: () => context.close() };
}

// ---- cases --------------------------------------------------------------------------------------

const PLOTS = `import base64
class Plot:
    def _repr_png_(self):
        return base64.b64decode('${PNG}')
`;

test('two plots are side by side, each with a caption; on a narrow screen one below the other', async () => {
    const code = `${PLOTS}display(Plot())\ndisplay(Plot())`;
    const { view, page, result, complaints, close } = await shown(code);
    assert.equal(result.content.filter((block) => block.type === 'image').length, 2);
    const first = view.getByRole('img', { name: 'Plot 1 of 2' });
    const second = view.getByRole('img', { name: 'Plot 2 of 2' });
    for (const plot of [first, second]) {
        assert.equal(await plot.evaluate((img) => img.decode().then(() => img.naturalWidth)), 1);
    }
    const places = () => view.locator('.pictures').evaluate((all) => [...all.querySelectorAll('img')].map((img) => img.getBoundingClientRect().toJSON()));
    const [left, right] = await places();
    assert.equal(left.y, right.y);
    assert.ok(left.x < right.x);
    await page.setViewportSize({ width: 320, height: 900 });
    // The frame hears of it later, and the host of the frame's height later still.
    const held = await view.locator('.pictures').elementHandle();
    await (await held.ownerFrame()).waitForFunction((all) => {
        const [above, below] = [...all.querySelectorAll('img')].map((img) => img.getBoundingClientRect());
        return above.x === below.x && above.y < below.y;
    }, held);
    await page.waitForFunction(() => window.said.sizes.some((height) => height > 0));
    assert.deepEqual(complaints, []);
    await close();
});

const TABLE = `class Frame:
    def _repr_html_(self):
        return '''<div><style scoped>td { color: red }</style><table border="1" class="dataframe">
<thead><tr style="text-align: right;"><th></th><th>town</th><th>people</th></tr></thead>
<tbody><tr><th>0</th><td>Ulm</td><td>126,000</td></tr><tr><th>1</th><td>&lt;b&gt;Aalen&lt;/b&gt;</td><td>68,000</td></tr><tr><th>2</th><td>Bonn</td><td>NaN</td></tr></tbody>
</table><p>3 rows × 2 columns</p></div>'''
Frame()`;

test('a table sorts by click and by keyboard, numbers as numbers; its cells are text', async () => {
    const { view, complaints, close } = await shown(TABLE);
    await view.getByRole('table', { name: /3 rows/ }).waitFor();
    const towns = () => view.locator('tbody tr').evaluateAll((rows) => rows.map((row) => row.cells[1].textContent));
    const title = (name) => view.getByRole('columnheader', { name });
    assert.deepEqual(await towns(), ['Ulm', '<b>Aalen</b>', 'Bonn']);
    await view.getByRole('button', { name: 'people' }).click();
    assert.deepEqual(await towns(), ['<b>Aalen</b>', 'Ulm', 'Bonn']);
    assert.equal(await title('people').getAttribute('aria-sort'), 'ascending');
    await view.getByRole('button', { name: 'people' }).focus();
    await view.getByRole('button', { name: 'people' }).press('Enter');
    assert.deepEqual(await towns(), ['Ulm', '<b>Aalen</b>', 'Bonn']);
    assert.equal(await title('people').getAttribute('aria-sort'), 'descending');
    await view.getByRole('button', { name: 'town' }).press('Space');
    assert.deepEqual(await towns(), ['<b>Aalen</b>', 'Bonn', 'Ulm']);
    assert.equal(await title('people').getAttribute('aria-sort'), null);
    assert.equal(await view.locator('iframe, tbody b').count(), 0);
    assert.deepEqual(complaints, []);
    await close();
});

const chart = (leak) => `class Chart:
    def _repr_html_(self):
        return '''<h1 id="title">chart</h1><button onclick="this.textContent = 'pressed'">press</button><div style="height: 333px"></div>
<img src="${leak}/img"><link rel="stylesheet" href="${leak}/style"><script src="${leak}/script"></script>
<script>
const tried = {};
const attempt = async (name, act) => { try { tried[name] = String(await act()); } catch { tried[name] = 'refused'; } };
(async () => {
    await attempt('fetch', () => fetch('${leak}/fetch', { mode: 'no-cors' }));
    await attempt('socket', () => new Promise((ok, no) => { const s = new WebSocket('${leak}/socket'.replace('http', 'ws')); s.onopen = ok; s.onerror = no; }));
    await attempt('parent', () => parent.document.body.textContent);
    await attempt('top', () => top.document.body.textContent);
    await attempt('storage', () => localStorage.length);
    await attempt('call', async () => {
        const call = new RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:${stun.address().port}' }] });
        call.createDataChannel('x');
        await call.setLocalDescription(await call.createOffer());
        if (call.iceGatheringState !== 'complete') await new Promise((ok) => call.addEventListener('icegatheringstatechange', () => call.iceGatheringState === 'complete' && ok()));
        return call.localDescription.sdp.includes('a=candidate') ? 'connected' : Promise.reject();
    });
    await attempt('leave', () => { top.location = '${leak}/top'; return 'left'; });
    await attempt('window', () => window.open('${leak}/window') === null ? Promise.reject() : 'opened');
    for (const other of [parent, parent.parent, top])
        other.postMessage({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'execute_code', arguments: { code: 'evil' } } }, '*');
    document.getElementById('title').textContent = JSON.stringify(tried);
})();
</script>'''
Chart()`;

test('HTML runs its script in a frame of its own, and reaches neither a network nor who holds it', async () => {
    const { page, view, complaints, close } = await shown(chart(stranger.url));
    const frame = view.frameLocator('iframe');
    const title = frame.locator('#title').filter({ hasText: 'window' });
    await title.waitFor();
    const refused = Object.fromEntries(['fetch', 'socket', 'parent', 'top', 'storage', 'call', 'leave', 'window'].map((name) => [name, 'refused']));
    assert.deepEqual(JSON.parse(await title.innerText()), refused);
    await frame.getByRole('button', { name: 'press' }).click();
    await frame.getByRole('button', { name: 'pressed' }).waitFor();
    const held = await view.locator('iframe').elementHandle();
    await (await held.ownerFrame()).waitForFunction((each) => each.offsetHeight > 333, held); // it gets the height of its content
    const inner = page.frames().find((each) => each.url() === 'about:srcdoc');
    await inner.evaluate((url) => {
        location.href = `${url}/away`;
    }, stranger.url).catch(() => {}); // the frame is gone, or shows the browser's refusal
    await view.locator('main').waitFor();
    assert.deepEqual(await page.evaluate(() => window.said.calls), []);
    assert.deepEqual(stranger.asked, []);
    assert.equal(new URL(page.url()).origin, hostSite.url);
    assert.deepEqual(complaints, []);
    await close();
});

test('colours of a terminal are shown, and other escapes are left out', async () => {
    const code = String.raw`print('\x1b[1;31mred\x1b[0m plain \x1b[38;2;1;2;3mexact\x1b[0m \x1b]0;title\x07\x1b[2Jend')
print('10%\r50%\rdone')
1 / 0`;
    const { view, complaints, close } = await shown(code);
    const output = view.getByRole('region', { name: 'Output', exact: true }).locator('pre');
    assert.equal(await output.evaluate((pre) => pre.textContent), 'red plain exact end\ndone\n');
    const look = (text) => output.locator('span', { hasText: text }).evaluate((span) => [getComputedStyle(span).color, getComputedStyle(span).fontWeight]);
    assert.deepEqual(await look('exact'), ['rgb(1, 2, 3)', '400']);
    const [red, weight] = await look('red');
    assert.notEqual(red, await output.evaluate((pre) => getComputedStyle(pre).color));
    assert.equal(weight, '700');
    await view.getByRole('status').filter({ hasText: 'error' }).waitFor();
    await view.getByText(/ZeroDivisionError/).first().waitFor();
    assert.deepEqual(complaints, []);
    await close();
});

/** The result with other fields. */
const withFields = (fields) => (result) => ({ ...result, _meta: { ...result._meta, [FIELDS]: { ...result._meta[FIELDS], ...fields } } });

test('as long a line as is shown, whatever its escapes, leaves the page at work', async () => {
    const most = 400000;
    const lines = [
        ['x'.repeat(most), 'x'.repeat(most)],
        [`${'a'.repeat(most / 2)}\r${'b'.repeat(most / 2 - 1)}`, 'b'.repeat(most / 2 - 1)],
        [`${'c\r'.repeat(most / 2 - 2)}end`, 'end'],
        [`end\n${'\r'.repeat(most - 4)}`, `end\n${'\r'.repeat(most - 4)}`],
        [`\x1b[1;${'0;'.repeat(most / 2 - 10)}0mend`, 'end'],
    ];
    const fields = { displays: lines.map(([text]) => ({ 'text/plain': text })) };
    const { view, complaints, close } = await shown('1', { changed: withFields(fields) });
    for (const [at, [, text]] of lines.entries()) {
        const shownText = await view.getByRole('region', { name: `Display ${at + 1} of ${lines.length}`, exact: true }).locator('pre').evaluate((pre) => pre.textContent);
        assert.ok(shownText === text, `display ${at + 1} has ${shownText.length} characters`);
    }
    await view.locator('summary').click();
    await view.locator('details[open]').waitFor();
    assert.deepEqual(complaints, []);
    await close();
});

test('a table of one row with 150,000 cells is shown, in a frame, and what stands beside it too', async () => {
    const table = (head, cells) => `<table><thead><tr><th>first</th>${'<th>h'.repeat(head - 1)}</tr></thead><tbody><tr>${'<td>1'.repeat(cells)}</tr></tbody></table>`;
    const fields = { stdout: 'beside\n', displays: [table(1, 150000), table(150000, 1), table(1, 3)].map((html) => ({ 'text/html': html })) };
    const { view, complaints, close } = await shown('1', { changed: withFields(fields) });
    await view.getByRole('region', { name: 'Output', exact: true }).getByText('beside').waitFor();
    assert.equal(await view.locator('iframe').count(), 2);
    await view.frameLocator('iframe').first().locator('td').nth(149999).waitFor({ state: 'attached' });
    // A head that is too short for its rows gets names.
    await view.getByRole('button', { name: 'column 3' }).click();
    assert.deepEqual(await view.locator('tbody td').allTextContents(), ['1', '1', '1']);
    assert.deepEqual(complaints, []);
    await close();
});

test('a display that cannot be shown is a line, and the rest is shown', async () => {
    const fields = { stdout: 'before\n', displays: [null, { 'text/plain': 'good' }], result: 'the value' };
    const { view, complaints, close } = await shown('1', { changed: withFields(fields) });
    await view.getByRole('region', { name: 'Output', exact: true }).getByText('before').waitFor();
    await view.getByText(/^Display 1 of 2: not shown/).waitFor();
    await view.getByRole('region', { name: 'Display 2 of 2', exact: true }).getByText('good').waitFor();
    await view.getByRole('region', { name: 'Value', exact: true }).getByText('the value').waitFor();
    assert.deepEqual(complaints, []);
    await close();
});

test('what code writes is text, whatever it looks like', async () => {
    const evil = `<img src=x onerror="document.title='owned'"></script><script>document.title='owned'</script>`;
    const code = `import sys, os
evil = ${JSON.stringify(evil)}
print(evil)
print(evil, file=sys.stderr)
open('<b>x', 'w').write('x')
raise ValueError(evil)`;
    const { view, complaints, close } = await shown(code);
    assert.equal(await view.getByRole('region', { name: 'Output', exact: true }).locator('pre').evaluate((pre) => pre.textContent), `${evil}\n`);
    await view.getByText(`ValueError: ${evil}`).first().waitFor();
    await view.getByText('<b>x (1 bytes)').waitFor();
    assert.equal(await view.locator('img, main script, b').count(), 0);
    assert.equal(await view.locator('html').evaluate(() => document.title), 'Result');
    assert.deepEqual(complaints, []);
    await close();
});

test('a drawing and long HTML, which a result only locates, are asked for by way of the host', async () => {
    const code = `class Both:
    def _repr_svg_(self):
        return '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><script>parent.x = 1</script></svg>'
class Long:
    def _repr_html_(self):
        return '<p id="end">end</p><!--' + 'x' * 40000 + '-->'
display(Both())
Long()`;
    const { view, complaints, close } = await shown(code);
    const drawing = view.getByRole('img', { name: 'Display 1 of 2' });
    assert.deepEqual(await drawing.evaluate((img) => img.decode().then(() => [img.naturalWidth, img.naturalHeight])), [40, 30]);
    await view.frameLocator('iframe').locator('#end').waitFor();
    assert.deepEqual(complaints, []);
    await close();
});

test('it follows the colours of the host, and every control has a name', async () => {
    const { page, view, close } = await shown(TABLE, { theme: 'light' });
    const ground = () => view.locator('body').evaluate((body) => getComputedStyle(body).backgroundColor);
    const light = await ground();
    await page.evaluate(() => window.bridge.sendHostContextChange({ theme: 'dark' }));
    await view.locator('html[data-theme=dark]').waitFor();
    assert.notEqual(await ground(), light);
    const nameless = await view.locator('main').evaluate((main) => [...main.querySelectorAll('button, section, [role=region], iframe, img, table')]
        .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.title || e.alt || e.getAttribute('aria-labelledby'))).map((e) => e.outerHTML));
    assert.deepEqual(nameless, []);
    await view.locator('summary').click();
    await view.getByText('class Frame:').waitFor();
    await close();
});

test('the server ends without complaint', async () => {
    await client.close();
    await browser.close();
});
await run();
