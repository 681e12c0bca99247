// A small cloud of the tests' own, for the backend `e2b`: control plane, proxy and the daemon of each sandbox on one port. The Connect protocol
// is spoken by Buf's own server for Node, the messages are those of the service's .proto files as the official SDK has them: so nothing here
// shares code with what it tests, and the official SDK works on it (e2b_sdk.mjs). Sandboxes really run (e2b_boxes.mjs).
//
//   node e2b_standin.mjs DIRECTORY
//
// It prints {"port": N}, then takes one order a line on stdin and prints one answer a line: {"keys": […]}, {"release": 1 or 2}, {"version": "0.9.1"},
// {"delay": ms}, {"fault": {…}}, {"calm": true}, {"cut": true}, {"pause": id}, {"expire": id}, {"token": id}, {"most": N}, {"ask": what}.
// It ends, with all its sandboxes, when its stdin does. Faults are rules:
//
//   {"method", "path": a regular expression, "skip": N, "times": N, "do": what, …}
//
// where `do` is `status` (with code, message or body, headers), `garbage`, `huge`, `endless`, `hang`, `reset`, `unanswered` (done, and the
// connection is closed without an answer), `belied` (done, and answered as `status` says) or `ended` (a stream that ends with an error of this
// message, in which TOKEN stands for that of the request). `delay` is of every byte: half of it on its way here, half on its way back.
// Each request, and each answer that was not ordered, is compared with the service's OpenAPI files (e2b_contract.mjs): {"ask": "misfits"}.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { connect, createServer as createRelay } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Box } from './e2b_boxes.mjs';
import { Contract } from './e2b_contract.mjs';

const clients = createRequire(join(process.env.CLOISTER_CLIENTS, 'package.json'));
const { fileDesc, serviceDesc } = clients('@bufbuild/protobuf/codegenv2');
const { file_google_protobuf_timestamp: timestamp } = clients('@bufbuild/protobuf/wkt');
const { connectNodeAdapter } = clients('@connectrpc/connect-node');
const { Code, ConnectError } = clients('@connectrpc/connect');
const Ajv = clients('ajv').default;
const addFormats = clients('ajv-formats').default;
const [directory] = process.argv.slice(2);

const HUGE_BYTES = 200 * 2 ** 20;
const TEMPLATES = ['base', 'code-interpreter-v1'];
const ENDED_MS = 30000; // how long the end of a process can be asked for
const CHANGES = ['timeout', 'connect', 'pause'];

const boxes = new Map(); // by id
const streams = new Set(); // responses of process streams
const requests = []; // {method, path, code}
const misfits = []; // what in requests, and in answers from here, is not as the service's OpenAPI files have it
let keys = [];
let faults = [];
let release = 2;
let version = '0.9.1';
let delay = 0;
let most = 100;

/** The service's descriptors, which the SDK has in its sources. */
function described(path, needs) {
    const map = JSON.parse(readFileSync(clients.resolve('e2b').replace(/[^/]*$/, 'index.js.map')));
    const source = map.sourcesContent[map.sources.findIndex((name) => name.endsWith(path))];
    return serviceDesc(fileDesc(/fileDesc\(\s*'([^']+)'/.exec(source)[1], needs), 0);
}

const Process = described('envd/process/process_pb.ts');
const Filesystem = described('envd/filesystem/filesystem_pb.ts', [timestamp]);

// ---- the contract ----

const ajv = addFormats(new Ajv({ strict: false, strictNumbers: true }));
const types = readFileSync(clients.resolve('e2b').replace(/[^/]*$/, 'index.d.ts'), 'utf8');
const controlContract = new Contract(types, '/sandboxes', tester);
const daemonContract = new Contract(types, '/files', tester);

function tester(schema) {
    const test = ajv.compile(schema);
    return (value) => (test(value) ? undefined : test.errors.map((each) => `${each.instancePath} ${each.message} ${Object.values(each.params).join(' ')}`.trim()).join(', '));
}

/** What is wrong with a request to the REST part of either, undefined if nothing; from now on its answer is checked, too. */
function misfit(request, response, url, body, isForDaemon) {
    const contract = isForDaemon ? daemonContract : controlContract;
    const operation = contract.operation(request.method, url.pathname);
    response.operation = operation;
    if (!operation) {
        return `${request.method} ${url.pathname}: there is no such operation`;
    }
    const header = isForDaemon ? 'e2b-sandbox-port' : 'x-api-key'; // of which the types say nothing
    return request.headers[header] ? operation.request(url, request.headers, body) : `${request.method} ${url.pathname}: there is no header ${header}`;
}

// ---- the daemon ----

/** Events for one listener, who may be slower than they come. */
class Queue {
    constructor() {
        this.items = [];
        this.over = false;
        this.wake = () => {};
    }

    push(item) {
        this.items.push(item);
        this.wake();
    }

    end(failure) {
        this.over = true;
        this.failure = failure;
        this.wake();
    }

    async *[Symbol.asyncIterator]() {
        for (;;) {
            if (this.items.length) {
                yield this.items.shift();
            } else if (this.over) {
                if (this.failure) {
                    throw this.failure;
                }
                return;
            } else {
                await new Promise((resolve) => { this.wake = resolve; });
            }
        }
    }
}

function boxOf(context) {
    return boxes.get(context.requestHeader.get('E2b-Sandbox-Id'));
}

function processOf(box, selector) {
    const { case: kind, value } = selector?.selector ?? {};
    for (const each of box.processes.values()) {
        if (kind === 'pid' ? each.pid === value : each.tag && each.tag === value) {
            return each;
        }
    }
    throw new ConnectError(`process with ${kind} ${value} not found`, Code.NotFound);
}

async function* follow(process, context) {
    const queue = new Queue();
    process.listeners.add(queue);
    context.signal.addEventListener('abort', () => queue.end());
    const seconds = Number(context.requestHeader.get('Keepalive-Ping-Interval')) || 90;
    const timer = setInterval(() => queue.push({ case: 'keepalive', value: {} }), seconds * 1000);
    try {
        yield { event: { event: { case: 'start', value: { pid: process.pid } } } };
        if (process.end) {
            queue.push(process.end);
            queue.end();
        }
        for await (const event of queue) {
            yield { event: { event } };
        }
    } finally {
        clearInterval(timer);
        process.listeners.delete(queue);
    }
}

function ended(box, process, code, signal) {
    const status = signal ? `signal: ${signal === 'SIGKILL' ? 'killed' : 'terminated'}` : `exit status ${code}`;
    process.end = { case: 'end', value: { exitCode: signal ? -1 : code, exited: !signal, status, ...(code === 0 ? {} : { error: status }) } };
    for (const queue of process.listeners) {
        queue.push(process.end);
        queue.end();
    }
    setTimeout(() => box.processes.delete(process.pid), ENDED_MS).unref();
}

const rpc = connectNodeAdapter({
    jsonOptions: { ignoreUnknownFields: false }, // a member that the service's .proto files do not have is refused
    routes: (router) => {
        router.service(Process, {
            async *start(request, context) {
                const box = boxOf(context);
                const { cmd, args, envs, cwd } = request.process;
                const child = box.run(cmd, args, { ...box.env, ...envs }, cwd, request.stdin !== false);
                const process = { pid: child.pid, tag: request.tag, config: request.process, child, listeners: new Set() };
                box.processes.set(process.pid, process);
                for (const name of ['stdout', 'stderr']) {
                    // whoever listens not: it is lost, as with the real one
                    child[name].on('data', (value) => process.listeners.forEach((queue) => queue.push({ case: 'data', value: { output: { case: name, value } } })));
                }
                child.stdin?.on('error', () => {});
                child.on('close', (code, signal) => ended(box, process, code, signal));
                yield* follow(process, context);
            },
            async *connect(request, context) {
                yield* follow(processOf(boxOf(context), request.process), context);
            },
            list: (_, context) => ({ processes: [...boxOf(context).processes.values()].filter((p) => !p.end).map(({ config, pid, tag }) => ({ config, pid, tag })) }),
            async sendInput(request, context) {
                const { pid, child, end } = processOf(boxOf(context), request.process);
                if (end || !child.stdin?.writable) {
                    throw new ConnectError(`error writing to stdin of process '${pid}'`, Code.Internal);
                }
                await new Promise((resolve) => { child.stdin.write(request.input.input.value, resolve); });
                return {};
            },
            closeStdin(request, context) {
                processOf(boxOf(context), request.process).child.stdin.end();
                return {};
            },
            sendSignal(request, context) {
                Box.signal(processOf(boxOf(context), request.process).child, request.signal === 9 ? 'SIGKILL' : 'SIGTERM');
                return {};
            },
        });
        router.service(Filesystem, {
            stat(request, context) {
                const entry = boxOf(context).stat(request.path);
                if (!entry) {
                    throw new ConnectError(`file not found: stat ${request.path}: no such file or directory`, Code.NotFound);
                }
                return { entry };
            },
            listDir: () => { throw new ConnectError('not here', Code.Unimplemented); },
        });
    },
});

function answer(response, code, body, headers = {}) {
    const wrong = response.operation?.answer(code, body === undefined ? undefined : JSON.parse(JSON.stringify(body)));
    if (wrong) {
        misfits.push(wrong);
    }
    response.writeHead(code, body === undefined ? headers : { 'content-type': 'application/json', ...headers });
    response.end(body === undefined ? '' : JSON.stringify(body));
}

const problem = (response, code, message) => answer(response, code, { code, message });

async function bodyOf(request) {
    const parts = [];
    for await (const part of request) {
        parts.push(part);
    }
    return Buffer.concat(parts);
}

async function files(box, request, response, url) {
    const path = url.searchParams.get('path');
    if (request.method === 'GET') {
        const data = box.read(path);
        return data ? response.end(data) : problem(response, 404, `path '${path}' does not exist`);
    }
    let data = request.body;
    const type = request.headers['content-type'] ?? '';
    if (type.startsWith('multipart/')) {
        const form = await new Response(data, { headers: { 'content-type': type } }).formData();
        data = Buffer.from(await form.get('file').arrayBuffer());
    }
    box.write(path, data);
    return answer(response, 200, [{ name: path.replace(/.*\//, ''), path, type: 'file' }]);
}

function daemon(request, response, url) {
    const id = request.headers['e2b-sandbox-id'];
    const box = boxes.get(id);
    if (!request.headers['e2b-sandbox-port']) {
        response.writeHead(400);
        return response.end('missing header');
    }
    if (!box || box.paused) {
        return answer(response, 502, { sandboxId: id, message: 'The sandbox was not found', code: 502 });
    }
    if (url.pathname === '/health') {
        return answer(response, 204);
    }
    if (box.token && request.headers['x-access-token'] !== box.token) {
        return problem(response, 401, 'unauthorized access, please provide a valid access token or method signing if supported');
    }
    if (url.pathname === '/files') {
        return files(box, request, response, url);
    }
    if (/\/(Start|Connect)$/.test(url.pathname)) {
        streams.add(response);
        box.streams.add(response);
        response.on('close', () => { streams.delete(response); box.streams.delete(response); });
    }
    return rpc(request, response);
}

// ---- the control plane ----

const absent = (response, id) => problem(response, 404, `Sandbox "${id}" doesn't exist or you don't have access to it`);

const named = (box) => ({ sandboxID: box.id, templateID: box.template, alias: box.template, clientID: '6532622b', envdVersion: version });
const secret = (box) => ({ envdAccessToken: box.token, domain: null });
const opened = (box) => ({ ...named(box), ...secret(box) });
const listed = (box) => ({ ...named(box), cpuCount: 2, memoryMB: 512, diskSizeMB: 1024, state: box.paused ? 'paused' : 'running', startedAt: box.startedAt, endAt: box.endAt, metadata: box.metadata });
const detailed = (box) => ({ ...listed(box), ...secret(box) });

async function remove(box) {
    clearTimeout(box.timer);
    boxes.delete(box.id);
    await box.end();
}

function limit(box, seconds) {
    clearTimeout(box.timer);
    box.ttl = seconds;
    box.endAt = new Date(Date.now() + seconds * 1000).toISOString();
    box.timer = setTimeout(() => remove(box), seconds * 1000).unref();
}

function pause(box) {
    box.paused = true;
    clearTimeout(box.timer);
    for (const process of box.processes.values()) {
        process.listeners.forEach((queue) => queue.end(new ConnectError(`the connection to sandbox ${box.id} ended before the stream completed`, Code.Unavailable)));
    }
    box.freeze(true);
}

async function make(request, response, isOld) {
    const asked = JSON.parse(request.body);
    if (!TEMPLATES.includes(asked.templateID)) {
        return problem(response, 404, `template '${asked.templateID}' not found`);
    }
    if (boxes.size >= most) {
        return problem(response, 429, `you have reached the maximum number of concurrent E2B sandboxes (${most})`);
    }
    if (asked.timeout !== undefined && (asked.timeout <= 0 || asked.timeout > 3600)) {
        return problem(response, 400, asked.timeout <= 0 ? 'Timeout must be greater than 0' : 'Timeout cannot be greater than 1 hours');
    }
    const id = `i${randomBytes(10).toString('hex')}`;
    const box = Object.assign(new Box(join(directory, id)), { id, template: asked.templateID, token: !isOld || asked.secure ? randomBytes(16).toString('hex') : undefined, env: asked.envVars ?? {},
        metadata: asked.metadata ?? {}, processes: new Map(), streams: new Set(), startedAt: new Date().toISOString(), asked, paused: false });
    await box.start();
    limit(box, asked.timeout ?? (isOld ? 15 : 300));
    boxes.set(id, box);
    return answer(response, 201, opened(box));
}

function list(response, url) {
    let found = [...boxes.values()];
    const wanted = new URLSearchParams(decodeURIComponent(url.searchParams.get('metadata') ?? ''));
    for (const [name, value] of wanted) {
        found = found.filter((box) => box.metadata[name] === value);
    }
    const size = Number(url.searchParams.get('limit')) || 100;
    const from = Number(url.searchParams.get('nextToken')) || 0;
    const next = from + size < found.length ? { 'x-next-token': String(from + size) } : {};
    return answer(response, 200, found.slice(from, from + size).map(listed), next);
}

function change(request, response, box, what) {
    const asked = JSON.parse(request.body.length ? request.body : '{}');
    if (what === 'pause') {
        if (box.paused) {
            return problem(response, 409, `Error pausing sandbox - sandbox '${box.id}' is already paused`);
        }
        pause(box);
        return answer(response, 204);
    }
    if (what === 'timeout' && box.paused) {
        return absent(response, box.id);
    }
    if (what === 'timeout') {
        limit(box, asked.timeout);
        return answer(response, 204);
    }
    const wasPaused = box.paused;
    if (wasPaused) {
        box.paused = false;
        box.freeze(false);
    }
    limit(box, Math.max(asked.timeout ?? 300, wasPaused ? 0 : Math.ceil((Date.parse(box.endAt) - Date.now()) / 1000)));
    return answer(response, wasPaused ? 201 : 200, opened(box));
}

async function control(request, response, url) {
    if (!keys.includes(request.headers['x-api-key'])) {
        return problem(response, 401, `Invalid API key, please visit https://e2b.dev/docs/api-key for more information. ${request.headers['x-api-key']}`);
    }
    if (request.misfit) {
        return problem(response, 400, `request has an error: ${request.misfit}`);
    }
    const [, prefix, id, what] = /^(\/v2)?\/sandboxes(?:\/([^/]+))?(?:\/(\w+))?$/.exec(url.pathname) ?? [];
    const box = boxes.get(id);
    const method = request.method;
    if (prefix && release < 2) {
        return problem(response, 404, 'no matching operation was found');
    }
    if (!/^(\/v2)?\/sandboxes/.test(url.pathname) || (id && prefix && what !== 'connect')) {
        return problem(response, 404, 'no matching operation was found');
    }
    if (!id) {
        return method === 'POST' ? make(request, response, !prefix) : list(response, url);
    }
    if (!box) {
        return absent(response, id);
    }
    if (!what && method === 'DELETE') {
        await remove(box);
        return answer(response, 204);
    }
    if (!what) {
        return answer(response, 200, detailed(box));
    }
    return CHANGES.includes(what) && method === 'POST' ? change(request, response, box, what) : problem(response, 404, 'no matching operation was found');
}

// ---- faults ----

function faultOf(request) {
    const rule = faults.find((each) => (!each.method || each.method === request.method) && new RegExp(each.path).test(request.url) && (each.hits ?? 0) < (each.times ?? 1));
    if (!rule || (rule.skip ?? 0) > 0) {
        if (rule) {
            rule.skip -= 1;
        }
        return undefined;
    }
    rule.hits = (rule.hits ?? 0) + 1;
    return rule;
}

/** Goes wrong; true if nothing else is to be done. */
function fail(rule, request, response) {
    switch (rule?.do) {
    case 'status':
        answer(response, rule.code, rule.body ?? { code: rule.code, message: rule.message ?? 'on order' }, rule.headers);
        return true;
    case 'garbage':
        response.end('<html>this is no answer</html>');
        return true;
    case 'huge':
        response.writeHead(200, { 'content-length': HUGE_BYTES, 'content-type': 'application/json' });
        response.on('error', () => {});
        for (let sent = 0; sent < HUGE_BYTES / 1024; sent += 65536) {
            response.write(Buffer.alloc(65536, 'x'));
        }
        return true;
    case 'endless':
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('[');
        return true;
    case 'hang':
        return true;
    case 'reset':
        request.socket.destroy();
        return true;
    case 'ended': {
        const error = { code: 'internal', message: rule.message.replace('TOKEN', request.headers['x-access-token']) };
        const said = Buffer.from(JSON.stringify({ error }));
        response.writeHead(200, { 'content-type': 'application/connect+json' });
        response.end(Buffer.concat([Buffer.from([2, 0, 0, 0, said.length]), said]));
        return true;
    }
    case 'belied': {
        const end = response.end.bind(response);
        const head = response.writeHead.bind(response);
        response.writeHead = () => response;
        response.write = () => true;
        response.end = () => { head(rule.code, rule.headers); return end(JSON.stringify({ code: rule.code, message: 'on order' })); };
        return false;
    }
    case 'unanswered':
        response.writeHead = () => response;
        response.write = () => true;
        response.end = () => { request.socket.destroy(); return response; };
        return false;
    default:
        return false;
    }
}

async function serve(request, response) {
    const url = new URL(request.url, 'http://standin');
    const isForDaemon = 'e2b-sandbox-id' in request.headers;
    const rule = faultOf(request);
    if (!isForDaemon || !/^\/\w+\.\w+\//.test(url.pathname)) { // not of a Connect service, which has a contract of its own
        request.body = await bodyOf(request);
        request.misfit = misfit(request, response, url, request.body, isForDaemon);
        if (request.misfit) {
            misfits.push(request.misfit);
        }
    }
    if (rule) {
        response.operation = undefined; // what is answered on order need not fit
    }
    if (!fail(rule, request, response)) {
        await (isForDaemon ? daemon : control)(request, response, url);
    }
}

const server = createServer((request, response) => {
    response.on('finish', () => requests.push({ method: request.method, path: request.url, code: response.statusCode }));
    serve(request, response).catch((failure) => {
        process.stderr.write(`${failure.stack}\n`);
        request.socket.destroy();
    });
});
server.keepAliveTimeout = 0;
server.requestTimeout = 0;

// ---- the way here and back ----

function carry(from, to) {
    from.on('data', (data) => setTimeout(() => to.destroyed || to.write(data), delay / 2));
    from.on('end', () => setTimeout(() => to.end(), delay / 2));
    from.on('close', () => setTimeout(() => to.destroy(), delay / 2));
    from.on('error', () => {}); // its close follows
}

const door = createRelay({ allowHalfOpen: true }, (outside) => {
    const inside = connect({ port: server.address().port, host: '127.0.0.1', allowHalfOpen: true });
    outside.setNoDelay(true);
    inside.setNoDelay(true);
    carry(outside, inside);
    carry(inside, outside);
});

// ---- orders ----

/** Half of a message, and the end of the connection. */
function cut(response) {
    response.write(Buffer.from([0, 0, 0, 1, 0, 123]), () => response.socket?.destroy());
}

async function obey(order) {
    const box = boxes.get(order.pause ?? order.expire ?? order.token);
    if (order.keys) {
        keys = order.keys;
    } else if (order.release) {
        release = order.release;
    } else if (order.version !== undefined) {
        version = order.version;
    } else if (order.delay !== undefined) {
        delay = order.delay;
    } else if (order.most !== undefined) {
        most = order.most;
    } else if (order.fault) {
        faults.push(order.fault);
    } else if (order.calm) {
        faults = [];
    } else if (order.cut) {
        const count = streams.size;
        streams.forEach(cut);
        return { count };
    } else if (order.pause) {
        pause(box);
    } else if (order.expire) {
        await remove(box);
    } else if (order.token) { // and what was opened with the old one ends
        box.token = randomBytes(16).toString('hex');
        box.streams.forEach(cut);
    } else if (order.ask === 'boxes') {
        return [...boxes.values()].map((each) => ({ ...listed(each), asked: each.asked, ttl: each.ttl, secured: !!each.token }));
    } else if (order.ask === 'faults') {
        return faults;
    } else if (order.ask === 'requests') {
        return requests;
    } else if (order.ask === 'misfits') { // since the last time
        return misfits.splice(0);
    } else {
        return { problem: 'no such order' };
    }
    return {};
}

server.listen(0, '127.0.0.1', () => door.listen(0, '127.0.0.1', async () => {
    console.log(JSON.stringify({ port: door.address().port }));
    for await (const line of createInterface({ input: process.stdin })) {
        console.log(JSON.stringify(await obey(JSON.parse(line))));
    }
    await Promise.all([...boxes.values()].map(remove));
    process.exit(0);
}));
