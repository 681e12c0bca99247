// A small API server of the tests' own, for the backend `kubernetes`: what a real one says to what the backend asks, and faults on order. Its
// WebSockets are those of the package `ws`, so that nothing here shares code with what it tests. Pods really run (kube_pods.mjs).
//
//   node kube_standin.mjs DIRECTORY CERTIFICATE KEY CLIENT-CA
//
// It prints {"port": N}, then takes one order a line on stdin and prints one answer a line: {"tokens": {…}}, {"allow": […]}, {"deny": […]},
// {"release": N}, {"fault": {…}}, {"pods": {…}}, {"cut": true}, {"watches": what}, {"go": true}, {"end": {…}}, {"calm": true}, {"forget": object}, {"ask": what}.
// It ends, with all its pods, when its stdin does. Faults are rules:
//
//   {"method", "path": a regular expression, "skip": N, "times": N, "do": what, …}
//
// where `do` is `status` (with code, reason, message, headers), `garbage`, `huge`, `endless`, `hang`, `reset`, `unanswered` (done, and the
// connection is closed without an answer), or for an exec `cut` (in the middle of the frame with the byte at `bytes`).

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Pods } from './kube_pods.mjs';

const { WebSocketServer } = createRequire(join(process.env.CLOISTER_CLIENTS, 'package.json'))('ws');
const [directory, certificate, key, clientCa] = process.argv.slice(2);

const GROUPS = { pods: ['', 'v1', 'Pod'], configmaps: ['', 'v1', 'ConfigMap'], networkpolicies: ['networking.k8s.io', 'v1', 'NetworkPolicy'], leases: ['coordination.k8s.io', 'v1', 'Lease'] };
const WATCHED = { Pod: 'pods', Lease: 'leases' };
const MOST_BYTES = 3 * 2 ** 20; // of a request; the real limit
const MAP_BYTES = 2 ** 20;
const HUGE_BYTES = 200 * 2 ** 20;
const FRAME_BYTES = 16384;
const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL_VALUE = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/;
const LABEL_KEY = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

const objects = new Map(); // by kind/namespace/name
const streams = new Set(); // of exec, with cut()
const requests = []; // {method, path, code, user}
let tokens = {}; // token: user
let allowed = []; // "create pods/exec"
let denied = []; // of these, for a while
let release = 36; // the minor version; since 35 an exec is a creation, too
let protocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io'];
let faults = [];
let podFaults = { times: 0 };
let version = 1;
let forgotten = 0; // of what has happened until this version nothing is known any more
const history = []; // of what is watched: {version, type, place, labels, before, object: text}
const lastLabels = new Map(); // by kind/namespace/name, as the last event had them
const watches = new Set(); // {place, response, tell()}

const at = (kind, namespace, name) => `${kind}/${namespace}/${name}`;
const pods = new Pods(directory, (kind, namespace, name) => objects.get(at(kind, namespace, name)), touched);

function touched(object, type = 'MODIFIED') {
    version += 1;
    object.metadata.resourceVersion = String(version);
    const kind = WATCHED[object.kind];
    if (kind) {
        const place = at(kind, object.metadata.namespace, object.metadata.name);
        const labels = { ...object.metadata.labels };
        const event = { version, type, place, labels, before: lastLabels.get(place), object: JSON.stringify(object) };
        lastLabels.set(place, type === 'DELETED' ? undefined : labels);
        history.push(event);
        watches.forEach((watch) => watch.tell(event));
    }
}

/** A failure as an API server reports it. */
class Failure extends Error {
    constructor(code, reason, message, headers = {}, details = undefined) {
        super(message);
        this.code = code;
        this.headers = headers;
        this.body = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, details, code };
    }
}

// ---- who asks, and what they may ----

function userOf(request) {
    const peer = request.socket.authorized && request.socket.getPeerCertificate();
    if (peer?.subject?.CN) {
        return peer.subject.CN;
    }
    const [, token] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? [];
    if (token === undefined || !Object.hasOwn(tokens, token)) {
        throw new Failure(401, 'Unauthorized', 'Unauthorized');
    }
    return tokens[token];
}

function may(what) {
    return allowed.includes(what) && !denied.includes(what);
}

function demand(user, verb, resource, namespace, name) {
    if (!may(`${verb} ${resource}`)) {
        const group = GROUPS[resource]?.[0] ?? '';
        const what = `${resource}${name ? ` "${name}"` : ''} is forbidden: User "${user}" cannot ${verb} resource "${resource}" in API group "${group}" in the namespace "${namespace}"`;
        throw new Failure(403, 'Forbidden', what);
    }
}

// ---- objects ----

function check(kind, object, namespace) {
    const name = object?.metadata?.name ?? '';
    const wrong = (field, why) => {
        const message = `${GROUPS[kind][2]} "${name}" is invalid: ${field}: Invalid value: ${why}`;
        throw new Failure(422, 'Invalid', message, {}, { name, kind: GROUPS[kind][2], causes: [{ reason: 'FieldValueInvalid', message: why, field }] });
    };
    if (!NAME.test(name) || name.length > 253) {
        wrong('metadata.name', `"${name}"`);
    }
    if (object.kind !== GROUPS[kind][2]) {
        throw new Failure(400, 'BadRequest', `${object.kind} in version "${object.apiVersion}" cannot be handled as a ${GROUPS[kind][2]}`);
    }
    if (object.metadata.namespace !== undefined && object.metadata.namespace !== namespace) {
        throw new Failure(400, 'BadRequest', 'the namespace of the provided object does not match the namespace sent on the request');
    }
    for (const [label, value] of Object.entries(object.metadata.labels ?? {})) {
        if (!LABEL_KEY.test(label)) {
            wrong('metadata.labels', `"${label}": name part must consist of alphanumeric characters`);
        }
        if (typeof value !== 'string' || value.length > 63 || !LABEL_VALUE.test(value)) {
            wrong('metadata.labels', `"${value}": a valid label must be an empty string or consist of alphanumeric characters`);
        }
    }
    for (const [, value] of Object.entries(object.metadata.annotations ?? {})) {
        if (typeof value !== 'string') {
            throw new Failure(400, 'BadRequest', 'annotations are strings');
        }
    }
    if (kind === 'configmaps') {
        const parts = [...Object.values(object.data ?? {}).map((v) => Buffer.byteLength(v)), ...Object.values(object.binaryData ?? {}).map((v) => Buffer.from(v, 'base64').length)];
        if (parts.reduce((sum, n) => sum + n, 0) > MAP_BYTES) {
            throw new Failure(422, 'Invalid', `ConfigMap "${name}" is invalid: []: Too long: must have at most 1048576 bytes`);
        }
    }
    if (kind === 'pods') {
        checkPod(object, wrong);
    }
}

function checkPod(pod, wrong) {
    const { spec } = pod;
    if (!spec?.containers?.length) {
        wrong('spec.containers', 'Required value');
    }
    const volumes = new Set((spec.volumes ?? []).map((v) => v.name));
    for (const container of spec.containers) {
        if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(container.name ?? '') || !container.image) {
            wrong('spec.containers[0]', `name "${container.name}", image "${container.image}"`);
        }
        for (const mount of container.volumeMounts ?? []) {
            if (!volumes.has(mount.name) || mount.mountPath?.includes(':') || !mount.mountPath) {
                wrong('spec.containers[0].volumeMounts', `"${mount.name}" at "${mount.mountPath}"`);
            }
        }
        for (const each of container.env ?? []) {
            if (typeof each.value !== 'string' && each.valueFrom === undefined) {
                throw new Failure(400, 'BadRequest', 'Pod in version "v1" cannot be handled as a Pod: v1.EnvVar.Value: ReadString: expects " or n');
            }
        }
    }
    if (spec.dnsPolicy === 'None' && !spec.dnsConfig?.nameservers?.length) {
        wrong('spec.dnsConfig.nameservers', 'must provide at least one DNS nameserver when `dnsPolicy` is None');
    }
}

function create(kind, namespace, object) {
    check(kind, object, namespace);
    const { name } = object.metadata;
    const place = at(kind, namespace, name);
    if (objects.has(place)) {
        throw new Failure(409, 'AlreadyExists', `${kind} "${name}" already exists`, {}, { name, kind });
    }
    object.metadata = { ...object.metadata, namespace, uid: randomUUID(), creationTimestamp: new Date().toISOString().replace(/\.\d+/, '') };
    objects.set(place, object);
    touched(object, 'ADDED');
    if (kind === 'pods') {
        const { image, do: what } = podFaults;
        const hits = podFaults.times > 0 && (image === undefined || object.spec.containers.some((c) => c.image === image));
        podFaults.times -= hits ? 1 : 0;
        pods.start(object, hits ? what : undefined);
    }
    return object;
}

function get(kind, namespace, name) {
    const found = objects.get(at(kind, namespace, name));
    if (!found) {
        throw new Failure(404, 'NotFound', `${kind} "${name}" not found`, {}, { name, kind });
    }
    return found;
}

function matches(object, selector) {
    return selector.split(/,(?![^(]*\))/).every((part) => {
        const labels = object.metadata.labels ?? {};
        const set = /^\s*([^\s!=]+)\s+(in|notin)\s+\(([^)]*)\)\s*$/.exec(part);
        if (set) {
            return set[3].split(',').map((v) => v.trim()).includes(labels[set[1]]) === (set[2] === 'in');
        }
        const [, name, relation, value] = /^\s*(!?[^\s!=]+)\s*(==|!=|=)?\s*(.*?)\s*$/.exec(part);
        if (!relation) {
            return name.startsWith('!') ? !(name.slice(1) in labels) : name in labels;
        }
        return (labels[name] === value) === (relation !== '!=');
    });
}

function list(kind, namespace, query) {
    const selector = query.get('labelSelector');
    const field = /^metadata\.name=(.*)$/.exec(query.get('fieldSelector') ?? '');
    return [...objects.entries()].filter(([place]) => place.startsWith(`${kind}/${namespace}/`)).map(([, object]) => object)
        .filter((object) => (!selector || matches(object, selector)) && (!field || object.metadata.name === field[1]));
}

function remove(kind, object, options) {
    const { namespace, name, uid } = object.metadata;
    if (options?.preconditions?.uid && options.preconditions.uid !== uid) {
        throw new Failure(409, 'Conflict', `Operation cannot be fulfilled on ${kind} "${name}": Precondition failed: UID in precondition: ${options.preconditions.uid}, UID in object meta: ${uid}`);
    }
    const wanted = options?.preconditions?.resourceVersion;
    if (wanted && wanted !== object.metadata.resourceVersion) {
        throw new Failure(409, 'Conflict', `Operation cannot be fulfilled on ${kind} "${name}": Precondition failed: ResourceVersion in precondition: ${wanted}, ResourceVersion in object meta: ${object.metadata.resourceVersion}`);
    }
    const drop = () => {
        if (objects.get(at(kind, namespace, name)) === object) {
            objects.delete(at(kind, namespace, name));
            touched(object, 'DELETED');
        }
    };
    if (kind !== 'pods') {
        drop();
        return;
    }
    const over = ['Succeeded', 'Failed'].includes(object.status?.phase);
    const seconds = over || !pods.isOnNode(object) ? 0 : options?.gracePeriodSeconds ?? object.spec.terminationGracePeriodSeconds ?? 30;
    object.metadata.deletionTimestamp = new Date().toISOString().replace(/\.\d+/, '');
    object.metadata.deletionGracePeriodSeconds = seconds;
    touched(object);
    if (seconds === 0) { // a real one forgets it at once, and the kubelet then ends it
        drop();
    }
    pods.remove(object, seconds, drop);
}

function patch(kind, object, change) {
    const wanted = change.metadata?.resourceVersion;
    if (wanted !== undefined && wanted !== object.metadata.resourceVersion) {
        throw new Failure(409, 'Conflict', `Operation cannot be fulfilled on ${kind} "${object.metadata.name}": the object has been modified; please apply your changes to the latest version and try again`);
    }
    const merge = (into, from) => {
        for (const [name, value] of Object.entries(from)) {
            if (value === null) {
                delete into[name];
            } else if (typeof value === 'object' && !Array.isArray(value)) {
                into[name] = merge(into[name] ?? {}, value);
            } else {
                into[name] = value;
            }
        }
        return into;
    };
    const { metadata = {}, ...rest } = change;
    const { resourceVersion, ...changed } = metadata; // a condition, no change
    merge(object, { ...rest, metadata: changed });
    check(kind, object, object.metadata.namespace);
    touched(object);
    return object;
}

// ---- watches ----

const expired = () => new Failure(410, 'Expired', 'The resourceVersion for the provided watch is too old.');

/** A line for a watch of those that a selector names: what leaves the selection is as good as deleted there. */
function lineOf({ type, labels, before, object }, selector) {
    const isIn = (some) => some && (!selector || matches({ metadata: { labels: some } }, selector));
    const [is, was] = [isIn(labels), isIn(before)];
    const told = !is || type === 'DELETED' ? was && 'DELETED' : was ? type : 'ADDED';
    return told && `{"type": "${told}", "object": ${object}}`;
}

/** Sends what happens to one object, or to all of a kind, a line an event, from a version on ("0": from what there is), until the time is up. */
function watch(kind, namespace, query, response) {
    const [, name] = /^metadata\.name=(.+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
    const concerns = (place) => (name ? place === at(kind, namespace, name) : place.startsWith(at(kind, namespace, '')));
    const from = Number(query.get('resourceVersion') ?? 0);
    const selector = query.get('labelSelector');
    const say = (text) => text && !response.writableEnded && response.write(`${text}\n`); // it may end before it is closed
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.flushHeaders();
    const bookmarks = query.get('allowWatchBookmarks') === 'true';
    const bookmark = () => bookmarks && say(JSON.stringify({ type: 'BOOKMARK', object: { kind: GROUPS[kind][2], apiVersion: GROUPS[kind][1], metadata: { resourceVersion: String(version) } } }));
    if (from > 0 && from < forgotten) {
        response.end(`${JSON.stringify({ type: 'ERROR', object: expired().body })}\n`);
        return;
    }
    if (from === 0) {
        [...objects].filter(([place, object]) => concerns(place) && (!selector || matches(object, selector))).forEach(([, object]) => say(JSON.stringify({ type: 'ADDED', object })));
    }
    history.filter((event) => from > 0 && event.version > from && concerns(event.place)).forEach((event) => say(lineOf(event, selector)));
    const entry = { response, bookmark, say, tell: (event) => concerns(event.place) && say(lineOf(event, selector)) };
    watches.add(entry);
    const timer = setTimeout(() => response.end(), Number(query.get('timeoutSeconds') ?? 1800) * 1000);
    response.on('close', () => {
        clearTimeout(timer);
        watches.delete(entry);
    });
}

/** All watches at once: a bookmark, nonsense, their end, half a line and no more, or an end from which none can go on. */
function disturb(how) {
    const all = [...watches];
    for (const { response, bookmark, say } of all) {
        if (how === 'bookmark') {
            bookmark();
        } else if (how === 'garbage') {
            say('{"type": "MODIFIED", "object": {\u0001');
        } else if (how === 'end' || how === 'forget') {
            response.end();
        } else {
            response.write('{"type": "MODIF', () => response.destroy());
        }
    }
    forgotten = how === 'forget' ? version + 1 : forgotten;
    version += how === 'forget' ? 1 : 0;
    return { count: all.length };
}

// ---- requests ----

async function bodyOf(request) {
    const parts = [];
    let size = 0;
    for await (const part of request) {
        size += part.length;
        if (size > MOST_BYTES) {
            throw new Failure(413, 'RequestEntityTooLarge', 'Request entity too large: limit is 3145728');
        }
        parts.push(part);
    }
    if (!size) {
        return undefined;
    }
    try {
        return JSON.parse(Buffer.concat(parts));
    } catch {
        throw new Failure(400, 'BadRequest', 'the object provided is unrecognized (must be of type JSON)');
    }
}

const OBJECT_PATH = /^\/(?:api|apis\/([^/]+))\/(v1)\/namespaces\/([^/]+)\/([a-z]+)(?:\/([^/]+))?$/;
const REVIEW = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';

/** Undefined if the answer is given already, and goes on. */
async function answer(request, url, response) {
    const user = userOf(request);
    const body = await bodyOf(request);
    if (url.pathname === '/version') {
        return [200, { major: '1', minor: `${release}+`, gitVersion: `v1.${release}.2-standin`, platform: 'linux/amd64' }];
    }
    if (url.pathname === REVIEW && request.method === 'POST') {
        const { verb, resource, subresource } = body.spec.resourceAttributes;
        const what = `${verb} ${resource}${subresource ? `/${subresource}` : ''}`;
        return [201, { kind: 'SelfSubjectAccessReview', apiVersion: 'authorization.k8s.io/v1', metadata: {}, spec: body.spec, status: { allowed: may(what) } }];
    }
    if (url.pathname === '/apis/node.k8s.io/v1/runtimeclasses') {
        return [200, { kind: 'RuntimeClassList', apiVersion: 'node.k8s.io/v1', metadata: {}, items: [] }];
    }
    const space = /^\/api\/v1\/namespaces\/([^/]+)$/.exec(url.pathname);
    if (space && request.method === 'GET') {
        return [200, { kind: 'Namespace', apiVersion: 'v1', metadata: { name: space[1] }, status: { phase: 'Active' } }];
    }
    const [, group = '', apiVersion, namespace, kind, name] = OBJECT_PATH.exec(url.pathname) ?? [];
    if (!GROUPS[kind] || GROUPS[kind][0] !== group) {
        throw new Failure(404, 'NotFound', 'the server could not find the requested resource');
    }
    const watched = url.searchParams.get('watch') === 'true';
    const verb = { GET: name ? 'get' : watched ? 'watch' : 'list', POST: 'create', PATCH: 'patch', PUT: 'update', DELETE: name ? 'delete' : 'deletecollection' }[request.method];
    demand(user, verb, kind, namespace, name);
    if (verb === 'watch') {
        note(request, 200);
        watch(kind, namespace, url.searchParams, response);
        return undefined;
    }
    if (verb === 'create') {
        return [201, create(kind, namespace, body)];
    }
    if (verb === 'get') {
        const object = get(kind, namespace, name);
        const partly = (request.headers.accept ?? '').includes('as=PartialObjectMetadata');
        return [200, partly ? { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata } : object];
    }
    const listKind = { kind: `${GROUPS[kind][2]}List`, apiVersion: `${group ? `${group}/` : ''}${apiVersion}`, metadata: { resourceVersion: String(version) } };
    if (verb === 'list') {
        return [200, { ...listKind, items: list(kind, namespace, url.searchParams) }];
    }
    if (verb === 'patch') {
        if (request.headers['content-type'] !== 'application/merge-patch+json') {
            throw new Failure(415, 'UnsupportedMediaType', 'the body of the request was in an unknown format');
        }
        return [200, patch(kind, get(kind, namespace, name), body)];
    }
    if (verb === 'delete') {
        const object = get(kind, namespace, name);
        remove(kind, object, body ?? {});
        return [200, kind === 'pods' ? object : { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details: { name, kind, uid: object.metadata.uid } }];
    }
    if (verb === 'deletecollection') {
        const items = list(kind, namespace, url.searchParams);
        items.forEach((object) => remove(kind, object, body ?? {}));
        return [200, { ...listKind, items }];
    }
    throw new Failure(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource');
}

/** The rule for this request, if it is its turn. */
function faultOf(request) {
    for (const rule of faults) {
        if ((rule.method ?? request.method) !== request.method || !new RegExp(rule.path ?? '').test(request.url)) {
            continue;
        }
        if (rule.skip > 0) {
            rule.skip -= 1;
        } else if (rule.times === undefined || rule.times > 0) {
            rule.times = rule.times === undefined ? undefined : rule.times - 1;
            rule.hits = (rule.hits ?? 0) + 1;
            return rule;
        }
    }
    return undefined;
}

function note(request, code) {
    requests.push({ method: request.method, path: request.url, code });
}

/** True if the fault was the whole answer. */
function misbehave(rule, request, response) {
    const head = { 'Content-Type': 'application/json' };
    request.resume();
    switch (rule.do) {
        case 'status': {
            const failure = new Failure(rule.code, rule.reason, rule.message ?? rule.reason);
            response.writeHead(rule.code, { ...head, ...rule.headers }).end(JSON.stringify(failure.body));
            return true;
        }
        case 'garbage':
            response.writeHead(200, head).end('{"kind": "Pod", "metadata": {"name": \u0001]]]');
            return true;
        case 'huge':
        case 'endless': {
            response.writeHead(200, head);
            response.write('{"kind": "Pod", "padding": "');
            let left = rule.do === 'huge' ? HUGE_BYTES : Infinity;
            const more = () => {
                while (left > 0 && !response.destroyed) {
                    left -= 65536;
                    if (!response.write('x'.repeat(65536))) {
                        return;
                    }
                }
                response.end('"}');
            };
            response.on('drain', more);
            more();
            return true;
        }
        case 'hang':
            return true;
        case 'reset':
            response.destroy();
            return true;
        default:
            return false;
    }
}

const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key), ca: clientCa ? readFileSync(clientCa) : undefined, requestCert: !!clientCa, rejectUnauthorized: false }, async (request, response) => {
    const url = new URL(request.url, 'https://standin');
    const rule = faultOf(request);
    if (rule && misbehave(rule, request, response)) {
        note(request, rule.code ?? rule.do);
        return;
    }
    let code;
    let body;
    let headers = {};
    try {
        const done = await answer(request, url, response);
        if (!done) {
            return;
        }
        [code, body] = done;
    } catch (failure) {
        if (!(failure instanceof Failure)) {
            if (request.socket.destroyed) { // in the middle of its body: a worker may be killed at any time
                return;
            }
            throw failure;
        }
        ({ code, body, headers } = failure);
    }
    note(request, code);
    if (rule?.do === 'unanswered') {
        response.destroy();
        return;
    }
    response.writeHead(code, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body));
});

// ---- exec ----

const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, handleProtocols: (offered) => protocols.find((p) => offered.has(p)) ?? false });

function refuse(request, socket, failure) {
    note(request, failure.code);
    const text = JSON.stringify(failure.body);
    socket.end(`HTTP/1.1 ${failure.code} ${failure.body.reason}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`);
}

server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    const url = new URL(request.url, 'https://standin');
    const rule = faultOf(request);
    try {
        if (rule?.do === 'status') {
            throw new Failure(rule.code, rule.reason, rule.message ?? rule.reason);
        }
        if (rule?.do === 'hang') {
            return;
        }
        if (rule?.do === 'reset') {
            socket.destroy();
            return;
        }
        const user = userOf(request);
        const [, namespace, name] = /^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)\/exec$/.exec(url.pathname) ?? [];
        if (!name) {
            throw new Failure(404, 'NotFound', 'the server could not find the requested resource');
        }
        demand(user, 'get', 'pods/exec', namespace, name);
        if (release >= 35) {
            demand(user, 'create', 'pods/exec', namespace, name);
        }
        const pod = get('pods', namespace, name);
        const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((p) => p.trim());
        if (!protocols.some((p) => offered.includes(p))) {
            throw new Failure(403, 'Forbidden', `unable to upgrade: unable to negotiate protocol: client supports ${offered}`);
        }
        if (url.searchParams.get('container') && !pod.spec.containers.some((c) => c.name === url.searchParams.get('container'))) {
            throw new Failure(400, 'BadRequest', `container ${url.searchParams.get('container')} is not valid for pod ${name}`);
        }
        const child = pods.exec(pod, url.searchParams.getAll('command'));
        if (!child) {
            throw new Failure(500, 'InternalError', `error dialing backend: container not found ("${pod.spec.containers[0].name}")`);
        }
        note(request, 101);
        sockets.handleUpgrade(request, socket, head, (ws) => carry(ws, child, rule?.do === 'cut' ? rule : undefined));
    } catch (failure) {
        if (!(failure instanceof Failure)) {
            throw failure;
        }
        refuse(request, socket, failure);
    }
});

/** Half of a frame, and the end of the connection. */
function cut(ws, frame) {
    const head = Buffer.from([0x82, 126, frame.length >> 8, frame.length & 255]);
    ws.isCut = true;
    ws._socket.write(Buffer.concat([head, frame.subarray(0, frame.length / 2)]), () => ws._socket.destroy());
}

/** Joins a WebSocket with the stdin, stdout, stderr and exit status of a process. */
function carry(ws, child, rule) {
    let left = rule?.bytes ?? Infinity;
    const stream = { cut: () => { left = 0; } };
    streams.add(stream);
    [1, 2].forEach((channel) => ws.send(Buffer.from([channel])));
    const pass = (channel, output) => output.on('data', (data) => {
        for (let from = 0; from < data.length && !ws.isCut; from += FRAME_BYTES) {
            const frame = Buffer.concat([Buffer.from([channel]), data.subarray(from, from + FRAME_BYTES)]);
            left -= frame.length;
            if (left <= 0 && frame.length > 125) { // shorter ones have another head
                cut(ws, frame);
            } else {
                output.pause();
                ws.send(frame, () => output.resume());
            }
        }
    });
    pass(1, child.stdout);
    pass(2, child.stderr);
    child.stdin.on('error', () => {}); // it has ended, which its exit tells
    ws.on('error', () => {}); // its close follows
    ws.on('message', (data) => {
        if (data[0] === 0 && data.length > 1) {
            if (!child.stdin.write(data.subarray(1))) {
                ws.pause();
                child.stdin.once('drain', () => ws.resume());
            }
        } else if (data[0] === 255 && data[1] === 0 && ws.protocol.startsWith('v5')) {
            child.stdin.end();
        }
    });
    ws.on('close', () => {
        streams.delete(stream);
        child.stdin.end(); // as a kubelet does: the process itself is not killed
        child.stdout.resume();
        child.stderr.resume();
    });
    child.on('close', (code, signal) => {
        const status = code === 0 ? { metadata: {}, status: 'Success' } : { metadata: {}, status: 'Failure', reason: 'NonZeroExitCode', message: `command terminated with non-zero exit code: Error executing in Docker Container: ${code ?? signal}`,
            details: { causes: [{ reason: 'ExitCode', message: String(code ?? 137) }] } };
        if (!ws.isCut && ws.readyState === ws.OPEN) {
            ws.send(Buffer.concat([Buffer.from([3]), Buffer.from(JSON.stringify(status))]));
            ws.close(1000);
        }
    });
}

// ---- orders ----

function obey(order) {
    const pod = () => objects.get(at('pods', order.end.namespace, order.end.name));
    if (order.tokens) {
        tokens = order.tokens;
    } else if (order.allow) {
        allowed = order.allow;
    } else if (order.deny) {
        denied = order.deny;
    } else if (order.release) {
        release = order.release; // as in 1.30, the first without a gate for v5
        protocols = [...(release >= 30 ? ['v5.channel.k8s.io'] : []), 'v4.channel.k8s.io'];
    } else if (order.fault) {
        faults.push(order.fault);
    } else if (order.calm) {
        faults = [];
        podFaults = { times: 0 };
        denied = [];
    } else if (order.pods) {
        podFaults = { times: 1, ...order.pods };
    } else if (order.go) {
        pods.go();
    } else if (order.cut) { // in the middle of what each says next
        streams.forEach((stream) => stream.cut());
        return { count: streams.size };
    } else if (order.watches) {
        return disturb(order.watches);
    } else if (order.end) {
        if (order.end.how === 'evicted') {
            pods.fail(pod(), 'Evicted', 'The node was low on resource: ephemeral-storage.');
        } else if (order.end.how === 'drained') { // as the eviction API does it, but the object is gone at once
            pod().status.conditions.push({ type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI', message: 'Eviction API: evicting' });
            remove('pods', pod(), { gracePeriodSeconds: 0 });
        } else if (order.end.how === 'memory') {
            pods.runOutOfMemory(pod());
        } else {
            remove('pods', pod(), { gracePeriodSeconds: order.end.seconds ?? 0 });
        }
    } else if (order.forget) { // an object that somebody deletes
        objects.delete(order.forget);
    } else if (order.ask === 'objects') {
        return Object.fromEntries(Object.keys(GROUPS).map((kind) => [kind, [...objects].filter(([place]) => place.startsWith(`${kind}/`)).map(([, object]) => object)]));
    } else if (order.ask === 'requests') {
        return requests;
    } else if (order.ask === 'faults') {
        return faults;
    } else if (order.ask === 'logs') {
        return pods.logs();
    } else if (order.ask === 'streams') {
        return { count: streams.size };
    } else {
        return { problem: 'no such order' };
    }
    return {};
}

server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
createInterface({ input: process.stdin }).on('line', (line) => console.log(JSON.stringify(obey(JSON.parse(line))))).on('close', () => process.exit(0));
