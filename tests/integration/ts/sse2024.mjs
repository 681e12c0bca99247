// A client of the oldest revision, 2024-11-05, over its HTTP with server-sent events, written from that
// specification without a library.

import assert from 'node:assert/strict';
import { driveOldest } from './drive.mjs';
import { startServer } from './server.mjs';
import { needsRuntime, program, run, runtimeDirectory, test, within } from './tap.mjs';

const REVISION = '2024-11-05';
// Fields that later revisions have added to the messages of this client.
const UNKNOWN_TO_IT = ['title', 'annotations', 'outputSchema', 'structuredContent', 'resultType', 'icons', 'execution', '_meta', 'ttlMs', 'cacheScope'];

class Client {
    #base;
    #messages; // where to post
    #events;
    #stop = new AbortController();
    #waiting = new Map(); // id -> {resolve, reject, onprogress}
    #lastId = 0;
    #told; // of a change

    constructor(base) {
        this.#base = base;
    }

    async connect() {
        const stream = await fetch(`${this.#base}/sse`, { headers: { Accept: 'text/event-stream' }, signal: this.#stop.signal });
        assert.equal(stream.status, 200);
        assert.match(stream.headers.get('content-type'), /^text\/event-stream/);
        let opened;
        const endpoint = new Promise((resolve) => {
            opened = resolve;
        });
        this.#events = this.#read(stream.body, opened).catch((problem) => {
            if (!this.#stop.signal.aborted) {
                this.#failAll(problem);
            }
        });
        this.#messages = new URL(await within('the event that says where to post', endpoint), this.#base);
        assert.equal(this.#messages.origin, this.#base, 'posts go to where the stream came from');
        const result = await this.request('initialize', {
            protocolVersion: REVISION,
            capabilities: {},
            clientInfo: { name: 'from-2024', version: '1.0.0' },
        });
        assert.equal(result.protocolVersion, REVISION);
        await this.#post({ jsonrpc: '2.0', method: 'notifications/initialized' });
        return result;
    }

    async #read(body, opened) {
        let text = '';
        for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
            text += chunk;
            const events = text.split(/\r?\n\r?\n/);
            text = events.pop();
            for (const event of events) {
                const field = (name) => event.split(/\r?\n/).filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trim()).join('\n');
                if (field('event') === 'endpoint') {
                    opened(field('data'));
                } else if (field('data')) {
                    assert.equal(field('event') || 'message', 'message');
                    this.#take(JSON.parse(field('data')));
                }
            }
        }
        this.#failAll(new Error('the stream has ended'));
    }

    #failAll(problem) {
        for (const { reject } of this.#waiting.values()) {
            reject(problem);
        }
        this.#waiting.clear();
    }

    #take(message) {
        assert.equal(message.jsonrpc, '2.0');
        if (message.method === 'notifications/progress') {
            assert.ok(!('message' in message.params), JSON.stringify(message));
            this.#waiting.get(message.params.progressToken)?.onprogress?.(message.params);
        } else if (message.method === 'notifications/resources/updated') {
            this.#told?.(message.params.uri);
        } else if (message.method === undefined) {
            const { resolve, reject } = this.#waiting.get(message.id) ?? {};
            assert.ok(resolve, `an answer that nobody waits for: ${JSON.stringify(message)}`);
            this.#waiting.delete(message.id);
            if (message.error) {
                reject(Object.assign(new Error(message.error.message), message.error));
            } else {
                resolve(message.result);
            }
        } else {
            assert.ok(!('id' in message), `nothing may be asked of this client: ${JSON.stringify(message)}`);
        }
    }

    send(message) {
        return fetch(this.#messages, {
            method: 'POST',
            headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify(message),
        });
    }

    async #post(message) {
        const answer = await this.send(message);
        assert.equal(answer.status, 202, await answer.text());
    }

    async request(method, params = {}, { onprogress, signal } = {}) {
        const id = ++this.#lastId;
        // The answer may arrive before the response to the post, an error as well.
        const answered = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, onprogress }));
        answered.catch(() => {});
        signal?.addEventListener('abort', () => {
            const { reject } = this.#waiting.get(id);
            this.#waiting.delete(id);
            this.#post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, reason: String(signal.reason) } })
                .then(() => reject(new Error('cancelled')), reject);
        });
        const meta = onprogress ? { _meta: { progressToken: id } } : {};
        await this.#post({ jsonrpc: '2.0', id, method, params: { ...params, ...meta } });
        return within(method, answered);
    }

    list() {
        return this.request('tools/list').then((result) => result.tools);
    }

    call(name, args, options) {
        return this.request('tools/call', { name, arguments: args }, options);
    }

    read(uri) {
        return this.request('resources/read', { uri }).then((result) => result.contents);
    }

    async watch(uri, told) {
        this.#told = told;
        assert.deepEqual(await this.request('resources/subscribe', { uri }), {});
        return () => this.request('resources/unsubscribe', { uri });
    }

    async close() {
        this.#stop.abort();
        await this.#events;
    }
}

needsRuntime();
const server = await startServer(program, ['--runtime-dir', runtimeDirectory()]);
const client = new Client(server.url);
let opening;

test(`agrees on ${REVISION}`, async () => {
    opening = await client.connect();
    assert.equal(opening.serverInfo.name, 'cloister');
    assert.deepEqual(await client.request('ping'), {});
});
test('tells nothing that this revision does not know', async () => {
    for (const object of [opening, opening.serverInfo, ...(await client.list())]) {
        assert.deepEqual(Object.keys(object).filter((key) => UNKNOWN_TO_IT.includes(key)), [], JSON.stringify(object));
    }
});
driveOldest(client, 'the oldest client');
test('a session is over when its stream is', async () => {
    await within('the server to notice', (async () => {
        let status;
        do {
            const answer = await client.send({ jsonrpc: '2.0', id: 'late', method: 'ping' });
            status = answer.status;
            await answer.text();
        } while (status === 202);
        assert.equal(status, 404);
    })());
});
test('the server ends without complaint', () => server.stop());
await run();
