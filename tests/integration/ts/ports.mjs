// A web server of a sandbox in a real browser: its page with script, style, picture, form, fetch and redirect works, and
// neither the page nor its scripts can do anything in the server's name.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { chromium } from 'playwright-core';
import WebSocket from 'ws';
import { startServer } from './server.mjs';
import { needsRuntime, program, run, runtimeDirectory, test } from './tap.mjs';

const PATIENCE_MS = 120000; // as tests/lib/tap.py
const BROWSERS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

needsRuntime();
const executablePath = BROWSERS.find((path) => path && existsSync(path));
if (!executablePath) {
    console.log('1..0 # SKIP no Chromium on this machine');
    process.exit(0);
}

const WEB_SERVER = String.raw`
import http.server, json, threading, base64, hashlib, struct

PAGE = b'''<!doctype html><title>Inside</title><link rel="stylesheet" href="style.css"><h1>Page of the sandbox</h1>
<img id="dot" src="dot.png"><form method="post" action="form"><input name="word"><button>Send</button></form>
<form id="up" method="post" action="form" enctype="multipart/form-data"><input type="file" name="file"><button>Upload</button></form>
<a href="sub/go?/landed">go</a><p id="script"></p><p id="fetched"></p><script src="script.js"></script>'''
SCRIPT = b'''document.getElementById('script').textContent = 'the script runs';
fetch('data.json', {method: 'PUT', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({n: 42})})
  .then((r) => r.json()).then((j) => { document.getElementById('fetched').textContent = 'fetched ' + j.body; },
                              (e) => { document.getElementById('fetched').textContent = 'failed ' + e; });'''

SOCKET = b'''<!doctype html><title>Socket</title><p id="said"></p><script>
const socket = new WebSocket(location.href.replace(/^http/, 'ws').replace('socket', 'echo'), ['other', 'chat']);
const show = (text) => { const p = document.createElement('p'); p.textContent = text; document.body.append(p); };
socket.onopen = () => { show('open as ' + socket.protocol); socket.send('hello there'); };
socket.onmessage = (e) => { show('heard ' + (e.data.length > 100 ? e.data.length : e.data)); if (e.data.length < 100) socket.send('x'.repeat(300000)); else socket.close(1000); };
socket.onclose = (e) => show('closed ' + e.code + ' ' + e.wasClean);
socket.onerror = () => show('error');</script>'''

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *words): pass
    def answer(self, kind, body, status=200, **more):
        self.send_response(status)
        for name, value in {'Content-Type': kind, 'Content-Length': str(len(body)), **more}.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        self.wfile.write(body)
    def frame(self):
        first, size = self.rfile.read(2)
        size &= 127
        if size == 126: size = struct.unpack('>H', self.rfile.read(2))[0]
        elif size == 127: size = struct.unpack('>Q', self.rfile.read(8))[0]
        mask = self.rfile.read(4)
        return first, bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
    def echo(self):
        proof = hashlib.sha1((self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()
        head = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Accept: ' + base64.b64encode(proof).decode()]
        if 'Sec-WebSocket-Protocol' in self.headers: head.append('Sec-WebSocket-Protocol: chat')
        self.wfile.write('\r\n'.join([*head, '', '']).encode())
        self.close_connection = True
        while True:
            first, data = self.frame()
            size = len(data)
            short = bytes([size]) if size < 126 else b'\x7e' + struct.pack('>H', size) if size < 65536 else b'\x7f' + struct.pack('>Q', size)
            self.wfile.write(bytes([first if first & 15 != 9 else 0x8a]) + short + data)
            if first & 15 == 8: return
    def do_GET(self):
        name = self.path.split('?')[0]
        if name == '/echo' and 'Sec-WebSocket-Key' in self.headers: self.echo()
        elif name == '/socket': self.answer('text/html', SOCKET)
        elif name == '/': self.answer('text/html', PAGE, Set_Cookie='inside=1')
        elif name == '/style.css': self.answer('text/css', b'h1 { color: rgb(1, 2, 3) }')
        elif name == '/script.js': self.answer('text/javascript', SCRIPT)
        elif name == '/dot.png': self.answer('image/png', base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))
        elif name == '/sub/go': self.answer('text/plain', b'', 302, Location=self.path.split('?')[1])
        elif name == '/landed': self.answer('text/html', b'<h1>landed</h1>')
        else: self.answer('text/plain', b'nothing', 404)
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        if self.path == '/form':
            self.answer('text/html', b'<h1>got ' + str(len(body)).encode() + b'</h1><pre>' + body.replace(b'<', b'') + b'</pre>')
        else:
            self.answer('application/json', json.dumps({'body': body.decode()}).encode())
    do_PUT = do_POST

threading.Thread(target=http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler).serve_forever, daemon=True).start()
`;

const server = await startServer(program, ['--runtime-dir', runtimeDirectory(), '--ports']);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
const client = new Client({ name: 'ports', version: '1' });
await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)));
const call = async (tool, args) =>
    (await client.callTool({ name: tool, arguments: args }, undefined, { timeout: PATIENCE_MS })).structuredContent;
const { sandbox_id } = await call('create_sandbox', {});
await call('execute_code', { sandbox_id, code: WEB_SERVER });
const { url } = await call('expose_port', { sandbox_id, port: 8000 });

async function open() {
    const context = await browser.newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    await page.goto(url);
    return { context, page };
}

test('a page inside has its script, style, picture and data', async () => {
    const { context, page } = await open();
    await page.getByRole('heading', { name: 'Page of the sandbox' }).waitFor();
    await page.getByText('the script runs').waitFor();
    await page.getByText('fetched {"n":42}').waitFor();
    assert.equal(await page.locator('h1').evaluate((e) => getComputedStyle(e).color), 'rgb(1, 2, 3)');
    assert.equal(await page.locator('#dot').evaluate((e) => e.naturalWidth), 1);
    await context.close();
});

test('forms, uploads and redirects of the page lead below its address', async () => {
    const { context, page } = await open();
    await page.locator('input[name=word]').fill('a word & more');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('word=a+word+%26+more').waitFor();
    assert.ok(page.url().startsWith(`${url}form`));
    await page.goto(url);
    await page.locator('input[type=file]').setInputFiles({ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('what is in the file') });
    await page.getByRole('button', { name: 'Upload' }).click();
    await page.getByText('what is in the file').waitFor();
    await page.goto(url);
    await page.getByRole('link', { name: 'go' }).click();
    await page.getByRole('heading', { name: 'landed' }).waitFor();
    assert.equal(page.url(), `${url}landed`);
    await context.close();
});

test('a page opens a WebSocket to its own web server, which hears and answers it', async () => {
    const { context, page } = await open();
    await page.goto(`${url}socket`);
    for (const text of ['open as chat', 'heard hello there', 'heard 300000', 'closed 1000 true']) {
        await page.getByText(text).waitFor();
    }
    assert.equal(await page.getByText('error').count(), 0);
    assert.equal(await page.evaluate(() => self.origin), 'null');
    await context.close();
});

test('a page gets no WebSocket to this server itself, nor to another one', async () => {
    const { context, page } = await open();
    const tried = await page.evaluate(
        (places) =>
            Promise.all(
                places.map(
                    (place) =>
                        new Promise((resolve) => {
                            try {
                                const socket = new WebSocket(place);
                                socket.onopen = () => resolve('open');
                                socket.onerror = () => resolve('refused');
                            } catch (problem) {
                                resolve('refused');
                            }
                        }),
                ),
            ),
        [`${server.url.replace('http', 'ws')}/mcp`, 'ws://127.0.0.1:1/'],
    );
    assert.deepEqual(tried, ['refused', 'refused']);
    await context.close();
});

test('the client ws talks with a program inside, in text and bytes of all sizes', async () => {
    const socket = new WebSocket(`${url.replace('http', 'ws')}echo`, ['chat'], { headers: { Cookie: 'a=b' } });
    const heard = (send) =>
        new Promise((resolve, reject) => {
            socket.once('message', (data, binary) => resolve({ data, binary }));
            socket.once('error', reject);
            send();
        });
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    assert.equal(socket.protocol, 'chat');
    assert.equal(socket.extensions, '');
    assert.equal((await heard(() => socket.send('grüße'))).data.toString(), 'grüße');
    for (const size of [0, 1, 125, 126, 65535, 65536, 1000000]) {
        const bytes = Buffer.alloc(size, size % 251);
        const { data, binary } = await heard(() => socket.send(bytes));
        assert.ok(binary && bytes.equals(data), `${size} bytes`);
    }
    await new Promise((resolve, reject) => {
        socket.once('pong', resolve).once('error', reject);
        socket.ping();
    });
    const code = await new Promise((resolve) => {
        socket.once('close', resolve);
        socket.close(1000, 'enough');
    });
    assert.equal(code, 1000);
});

test('the page has no origin: no cookie, no storage, no word to the server, nothing from elsewhere', async () => {
    const { context, page } = await open();
    await page.getByText('the script runs').waitFor();
    assert.deepEqual(await context.cookies(), []);
    const tried = await page.evaluate(async (home) => {
        const attempt = async (what) => {
            try {
                return String(await what());
            } catch (problem) {
                return `refused: ${problem.name}`;
            }
        };
        const post = { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"ping"}', headers: { 'Content-Type': 'application/json' } };
        return {
            origin: self.origin,
            cookie: await attempt(() => document.cookie),
            storage: await attempt(() => localStorage.length),
            mcp: await attempt(async () => (await fetch(`${home}/mcp`, post)).status),
            page: await attempt(async () => (await fetch(`${home}/ui/`)).status),
            elsewhere: await attempt(async () => (await fetch('http://127.0.0.1:1/')).status),
        };
    }, server.url);
    assert.equal(tried.origin, 'null');
    for (const what of ['cookie', 'storage', 'mcp', 'page', 'elsewhere']) {
        assert.match(tried[what], /^refused/, `${what}: ${JSON.stringify(tried)}`);
    }
    await context.close();
});

test('a server on stdio shows such a page as well, at an address of this machine', async () => {
    const piped = new Client({ name: 'ports', version: '1' });
    await piped.connect(new StdioClientTransport({ command: program, args: ['--runtime-dir', runtimeDirectory(), '--ports'], env: process.env, stderr: 'ignore' }));
    const ask = async (tool, args) =>
        (await piped.callTool({ name: tool, arguments: args }, undefined, { timeout: PATIENCE_MS })).structuredContent;
    const box = (await ask('create_sandbox', {})).sandbox_id;
    await ask('execute_code', { sandbox_id: box, code: WEB_SERVER });
    const place = (await ask('expose_port', { sandbox_id: box, port: 8000 })).url;
    assert.match(place, /^http:\/\/127\.0\.0\.1:\d+\/ports\//);
    const context = await browser.newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    await page.goto(place);
    await page.getByText('fetched {"n":42}').waitFor();
    await page.goto(`${place}socket`);
    await page.getByText('closed 1000 true').waitFor();
    await context.close();
    await piped.close();
});

test('when the sandbox is closed, the browser is told so', async () => {
    const { context, page } = await open();
    await call('close_sandbox', { sandbox_id });
    assert.equal((await page.reload()).status(), 404);
    await page.getByText('the sandbox of this address is gone').waitFor();
    await context.close();
});

await run();
await client.close();
await browser.close();
await server.stop();
