// The JavaScript side of a live interpreter, named <cloister> by its loader (worker/agent/interp/node.c); requests on
// descriptor 3 and reports on 4, see README.md beside the agent's sources. Node itself closes both to
// the programs that it starts.
//
// A cell is rewritten (node_cells.js) and runs as a script in the main context, inside the callback
// that read its request. If it awaits something, its run ends when its promise is settled. The
// event loop goes on between runs, with the timers and servers that runs have left.
//
// SIGINT. Node can end a script that runs forever (vm, breakOnSigint): a thread of node gets the
// signal and terminates the code on the stack. It watches only while such a script runs, so all
// user code runs inside one (`guard`): cells, but also callbacks of timers and promises, for which
// parts of node are replaced. The watchdog runs from beginning to end, because otherwise a SIGINT
// could end the process at times. It notes a signal that comes while no script runs; SIGURG, which
// the agent sends as well, wakes the event loop to look for that. The replaced parts are internal.
// A node that has others runs without them, and then a loop in the callback of an awaited timer can
// only be ended by force.
//
// Terminated code does not run its `finally`, and queued promise callbacks are lost. So a guarded
// callback does nothing that must happen: it only notes what came, and `settle`, which is not
// guarded, acts on it. Node's own work on its timer lists is not guarded either, because a list
// whose processing was terminated would block all timers.

(function (require, rewrite, showing, streams) {
    'use strict';

    const fs = require('fs');
    const Module = require('module');
    const net = require('net');
    const path = require('path');
    const url = require('url');
    const util = require('util');
    const vm = require('vm');

    const HERE = '<cloister>';
    const [, WORKSPACE, ALL_PACKAGES] = process.argv;
    const PACKAGES = path.join(ALL_PACKAGES || '/packages', 'node');
    const REQUESTS = 3;
    const REPORTS = 4;
    const HEAD = 13; // bytes of a request between its length and its fields
    const OPEN = 2; // kind of a request whose stdin stays open
    const SYNC = 3; // kind of one without code, which only asks for an answer
    const SETTLE_MS = 10; // time in which a sent signal arrives
    const LOOK_MS = 2;
    const RESULT_MAX = 256 << 10;
    const NAME_MAX = 4096;
    const { inspect } = util;
    const { existsSync } = fs;
    const { ENDED, writeAll } = streams;
    const { setImmediate, Promise, Symbol } = globalThis;
    const { apply } = Reflect;
    const { then } = Promise.prototype;
    const stringify = JSON.stringify;
    const byteLength = Buffer.byteLength;

    // ---- node's own parts -----------------------------------------------------------------------

    const { emitWarning } = process;
    process.emitWarning = () => {}; // of using them
    const PARSER = 'internal/deps/acorn/acorn/dist/acorn';
    const acorn = require(PARSER);
    const { internalBinding } = require('internal/test/binding');
    const builtins = process.binding('natives');
    process.emitWarning = emitWarning;
    const watchdog = internalBinding('contextify');
    const { clearAsyncIdStack } = require('internal/async_hooks');
    process.execArgv = []; // not for forked children

    // Node's own copy of acorn, which parses cells, uses globals that user code may replace. Once
    // one is replaced, cells are parsed by a separate copy, which keeps the originals.
    const ITS_GLOBALS = ['Array', 'BigInt', 'Boolean', 'Error', 'Function', 'JSON', 'Map', 'Math', 'Number', 'Object', 'RangeError',
        'ReferenceError', 'RegExp', 'Set', 'String', 'Symbol', 'SyntaxError', 'TypeError', 'WeakMap', 'WeakSet', 'globalThis', 'isFinite',
        'isNaN', 'parseFloat', 'parseInt'];
    const originals = ITS_GLOBALS.map((name) => globalThis[name]);
    let ownParser;

    function parser() {
        const isOriginal = (name, i) => Object.getOwnPropertyDescriptor(globalThis, name)?.value === originals[i];
        if (ownParser === undefined && !ITS_GLOBALS.every(isOriginal)) {
            const exports = {};
            const parameters = ['exports', 'module', ...ITS_GLOBALS];
            vm.compileFunction(builtins[PARSER], parameters, { filename: `node:${PARSER}` })(exports, { exports }, ...originals);
            ownParser = exports;
        }
        return ownParser ?? acorn;
    }

    // ---- the wire -------------------------------------------------------------------------------

    function encoded(text, most = RESULT_MAX) {
        const data = Buffer.from(String(text), 'utf8');
        if (data.length <= most) return data;
        const note = `\n... [cut: ${data.length} bytes in all]`;
        let end = most - byteLength(note);
        while ((data[end] & 0xc0) === 0x80) end--;
        return Buffer.concat([data.subarray(0, end), Buffer.from(note)]);
    }

    function send(records) {
        const parts = [];
        for (const [kind, body] of records) {
            const data = typeof body === 'string' ? Buffer.from(body) : body;
            parts.push(Buffer.from(kind + data.length.toString(16).padStart(8, '0')), data);
        }
        try {
            writeAll(REPORTS, Buffer.concat(parts));
        } catch {
            process.reallyExit(ENDED); // user code has closed it
        }
    }

    function own(target, key, value) {
        Object.defineProperty(target, key, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
    }

    // ---- interrupts -----------------------------------------------------------------------------

    let run = null; // {number, cell, state, value}: state is busy, waiting, settled
    let guarded = null; // the function that the gate calls
    let depth = 0;
    let hooked = false; // node's internal entry points are replaced
    let missed = false; // an interrupt came while no run was there

    const GATE = Symbol('cloister');
    const options = { breakOnSigint: true, displayErrors: false };
    own(globalThis, '__cloister_gate', () => guarded());
    const gate = new vm.Script('__cloister_gate()', { filename: HERE });

    const wasInterrupted = (error) => error !== null && typeof error === 'object' &&
        error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';

    // Calls f so that SIGINT can end it. After a SIGINT the run is over, and the return value is
    // GATE; also if one was noted before, since the note would be lost here.
    function guard(f) {
        const outer = guarded;
        if (depth === 0 && watchdog.watchdogHasPendingSigint() && takePending()) {
            const ends = isOn();
            noted();
            if (ends) return GATE;
        }
        depth++;
        try {
            guarded = f;
            return gate.runInThisContext(options);
        } catch (error) {
            if (!wasInterrupted(error)) throw error;
            clearAsyncIdStack(); // as after an uncaught error: terminated code leaves entries on it
            interrupted();
            return GATE;
        } finally {
            guarded = outer;
            depth--;
        }
    }

    function takePending() {
        watchdog.startSigintWatchdog();
        return watchdog.stopSigintWatchdog(); // the inner of two: clears the note
    }

    // For waiting for the thread that notes a signal, which may be late. Not by a timer, since code
    // that is terminated while it sets a timer may break all timers.
    const still = new Int32Array(new SharedArrayBuffer(4));

    function takePendingSoon() {
        for (let ms = 0; ms < SETTLE_MS; ms += LOOK_MS) {
            if (takePending()) return true;
            Atomics.wait(still, 0, 0, LOOK_MS);
        }
        return takePending();
    }

    const isOn = () => run !== null && run.state !== 'settled';

    function interrupted() {
        if (!isOn()) {
            missed = true;
            return;
        }
        if (run.exit === undefined) run.interrupted = true;
        run.state = 'settled';
    }

    // True if a SIGINT came that ended no code.
    function noted() {
        if (process.listenerCount('SIGINT') > 0) {
            try {
                guard(() => process.emit('SIGINT', 'SIGINT', 2));
            } catch (error) {
                complain('Uncaught', error);
            }
        }
        interrupted();
        settle();
    }

    function look() {
        if (isOn() && takePendingSoon()) noted();
    }

    // Runs queued promise callbacks and ticks. Their errors are printed here and not by node, so
    // that they come before the report of the run.
    function drain(ticks) {
        for (;;) {
            try {
                guard(ticks);
                return;
            } catch (error) {
                clearAsyncIdStack();
                guard(() => process.emit('uncaughtException', error, 'uncaughtException'));
            }
        }
    }

    // Guards each callback of such objects.
    function guardCallbacks(type, name) {
        const callbacks = new WeakMap();
        for (const method of ['get', 'set']) own(callbacks, method, callbacks[method]);
        function call(...args) {
            return guard(() => apply(callbacks.get(this), this, args));
        }
        Object.defineProperty(type.prototype, name, {
            get() {
                const callback = callbacks.get(this);
                return typeof callback === 'function' ? call : callback;
            },
            set(callback) { callbacks.set(this, callback); },
            configurable: true,
        });
    }

    function guardEntries() {
        const { setTickCallback, tickInfo } = internalBinding('task_queue');
        const { setupTimers } = internalBinding('timers');
        const { getTimerCallbacks, Immediate, Timeout } = require('internal/timers');
        const ticks = process._tickCallback;
        const turn = () => {
            drain(ticks);
            tickInfo[0] = 1; // makes node call this every time, not only after process.nextTick()
        };
        const tick = () => {
            turn();
            settle();
        };
        const { processImmediate, processTimers } = getTimerCallbacks(turn); // between two callbacks
        guardCallbacks(Immediate, '_onImmediate');
        guardCallbacks(Timeout, '_onTimeout');
        hooked = true;
        setTickCallback(tick);
        tickInfo[0] = 1;
        setupTimers(processImmediate, processTimers);
        return tick;
    }

    // ---- errors ---------------------------------------------------------------------------------

    const edited = new Set(); // numbers of cells

    class Exit {} // thrown to unwind the caller of process.exit() where it cannot be terminated

    const OURS = /^\s+at .*(?:<cloister>|__cloister|node:internal\/|\(?node:vm:\d)/;

    // A stack trace without the driver's frames, and without columns in cells whose edits made them
    // wrong.
    function trimmed(text) {
        const lines = [];
        let below = false; // below the driver's first frame there are only frames of node
        for (const line of text.split('\n')) {
            const isOurs = OURS.test(line) || (below && /^\s+at .*\(?node:/.test(line));
            below = isOurs || (below && /^\s+at /.test(line));
            if (!isOurs) lines.push(line.replace(/(<cell (\d+)>:\d+):\d+/, (all, at, n) => (edited.has(+n) ? at : all)));
            else if (line.endsWith(' {') && lines.length > 0) lines[lines.length - 1] += ' {';
        }
        return lines.join('\n');
    }

    function complain(what, error) {
        if (error instanceof Exit) return;
        let text;
        try {
            text = `${what} ${trimmed(inspect(error))}\n`;
        } catch {
            text = `${what} error that cannot be shown\n`;
        }
        try {
            process.stderr.write(text);
        } catch {
            // replaced by something odd
        }
    }

    // Called when code has broken JavaScript's own objects. In this interpreter every run would
    // last until its deadline, so it exits and a new one starts.
    function broken(error) {
        complain('The interpreter cannot go on:', error);
        process.reallyExit(ENDED);
    }

    function describe(error) {
        if (!(util.types.isNativeError(error) || error instanceof Error)) {
            const text = inspect(error);
            return [['N', 'Uncaught'], ['M', encoded(text)], ['T', encoded(`Uncaught ${text}\n`)]];
        }
        const name = String(error.name || error.constructor?.name || 'Error');
        return [
            ['N', encoded(name, NAME_MAX)],
            ['M', encoded(error.message)],
            ['T', encoded(`${trimmed(inspect(error))}\n`)],
        ];
    }

    // ---- modules --------------------------------------------------------------------------------

    const NODE_MODULES = path.join(PACKAGES, 'node_modules');
    const paths = (process.env.NODE_PATH ?? '').split(':').filter(Boolean);
    if (!paths.includes(NODE_MODULES)) {
        process.env.NODE_PATH = [...paths, NODE_MODULES].join(':');
        Module._initPaths();
    }

    function moduleIn(directory) {
        const file = path.join(directory, '[cell].js'); // only for its directory; no such file
        const module = new Module('.');
        module.filename = file;
        module.paths = Module._nodeModulePaths(directory);
        module._compile('module.exports = (s, o) => (o === undefined ? import(s) : import(s, o))', file);
        return { module, load: module.exports, file };
    }

    const here = moduleIn(WORKSPACE);
    const installed = moduleIn(PACKAGES);
    here.module.exports = {};
    process.mainModule = here.module;
    const nodeRequire = Module.createRequire(here.file);

    const BARE = /^(?:@[^/]+\/)?[^./@][^/]*/;

    function isBare(name) {
        return typeof name === 'string' && BARE.test(name) && !/^[a-z]+:/.test(name) &&
            !Module.builtinModules.includes(name);
    }

    // Node caches failed lookups, but a package may be installed at any time. So node is only asked
    // when the package's directory exists.
    function homeOf(name) {
        const [root] = BARE.exec(name);
        const has = (dir) => ['', '.js', '.json', '.node', '.cjs', '.mjs'].some((end) => existsSync(path.join(dir, root + end)));
        return (nodeRequire.resolve.paths(name) ?? []).find(has);
    }

    function notFound(text, code) {
        const error = new Error(text);
        error.code = code;
        return error;
    }

    own(globalThis, 'require', function require(name) {
        if (isBare(name) && homeOf(name) === undefined) {
            throw notFound(`Cannot find module '${name}'`, 'MODULE_NOT_FOUND');
        }
        return nodeRequire(name);
    });
    Object.assign(globalThis.require, nodeRequire, { resolve: nodeRequire.resolve, main: here.module });
    // Deferred, because node restores its own value when the loader has finished.
    process.nextTick(() => {
        own(globalThis, 'module', here.module);
        own(globalThis, 'exports', here.module.exports);
        own(globalThis, '__filename', here.file);
        own(globalThis, '__dirname', WORKSPACE);
    });

    own(globalThis, '__cloister_import', async function load(name, options, wanted = []) {
        let from = here;
        let target = name;
        if (isBare(`${name}`)) {
            const home = homeOf(`${name}`);
            if (home === undefined) throw notFound(`Cannot find package '${name}'`, 'ERR_MODULE_NOT_FOUND');
            if (home === NODE_MODULES) from = installed;
            else if (!here.module.paths.includes(home)) target = url.pathToFileURL(nodeRequire.resolve(name)).href;
        }
        const namespace = await from.load(target, options);
        for (const member of wanted) {
            if (!(member in namespace)) {
                throw new SyntaxError(`The requested module '${name}' does not provide an export named '${member}'`);
            }
        }
        return namespace;
    });

    own(globalThis, '__cloister_global', globalThis); // code may define its own globalThis

    own(globalThis, '__cloister_meta', Object.freeze({
        __proto__: null,
        dirname: WORKSPACE,
        filename: here.file,
        url: url.pathToFileURL(here.file).href,
        resolve: (name) => (Module.builtinModules.includes(name) ? `node:${name}` : /^\w+:/.test(name) ? name :
            url.pathToFileURL(nodeRequire.resolve(name)).href),
    }));

    // Node loads its own modules on first use, and an interrupt then leaves half of a module for
    // good. So the modules that a cell names are loaded before it begins.
    const SCAN = 64 << 10;
    const unloaded = new Set(Module.builtinModules.filter((name) => !/^_|^(punycode|sys|domain|internal)\b/.test(name)));

    // These modules need the original `Promise` when they are loaded, which is when the first
    // CommonJS module is imported. So they are loaded before a cell that names `Promise` runs.
    let lexers = ['internal/deps/cjs-module-lexer/lexer', 'internal/deps/cjs-module-lexer/dist/lexer'];

    function preload(code) {
        if (lexers.length > 0 && code.includes('Promise')) {
            for (const name of lexers) {
                try {
                    require(name);
                } catch {
                    // not in this node
                }
            }
            lexers = [];
        }
        for (const [word] of code.slice(0, SCAN).matchAll(/[a-z][\w/]*/g)) {
            if (unloaded.delete(word)) {
                try {
                    nodeRequire(word);
                } catch {
                    // not in this build of node
                }
            }
        }
    }

    // ---- running --------------------------------------------------------------------------------

    const EDITED_MAX = 1000;
    const NEVER = new Promise(() => {});
    let cells = 0;
    let over = 0; // number of the latest cell that was stopped
    let last; // value of _, unless user code defines its own

    const stopped = (cell) => cell <= over || (run !== null && run.cell === cell && run.state === 'settled');

    // A top-level await of a cell. An interrupted cell does not go on when the promise settles in a
    // later run.
    own(globalThis, '__cloister_wait', async function wait(cell, value) {
        const result = await value;
        if (stopped(cell)) await NEVER;
        return result;
    });

    own(globalThis, '__cloister_each', async function* each(cell, source) {
        for await (const value of source) {
            if (stopped(cell)) await NEVER;
            yield value;
        }
    });

    function compile(source, name) {
        let cell;
        let unread;
        try {
            cell = rewrite(parser(), source, cells);
        } catch (error) {
            unread = error;
            cell = { text: source, shift: 0, names: [], isAsync: false, hasValue: true };
        }
        const text = cell.text;
        try {
            const script = new vm.Script(text, {
                filename: name,
                columnOffset: -cell.shift,
                importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
            });
            return { ...cell, script };
        } catch (error) {
            // for these words V8 only says that scripts may not use them, so acorn's message is
            // better
            if (unread?.loc === undefined || !/await|import|export|module/.test(error.message)) throw error;
            const { line, column } = unread.loc;
            const what = new SyntaxError(unread.message.replace(/ \(\d+:\d+\)$/, ''));
            what.stack = `${name}:${line}\n${source.split('\n')[line - 1]}\n${' '.repeat(column)}^\n\n${what}\n    at __cloister`;
            throw what;
        }
    }

    // Makes read-only globals such as `crypto` writable, since assignments of a cell would be
    // ignored.
    function makeRoom(names) {
        for (const name of names) {
            const there = Object.getOwnPropertyDescriptor(globalThis, name);
            if (there?.configurable && (there.set === undefined && !there.writable)) {
                Object.defineProperty(globalThis, name, { __proto__: null, value: undefined, writable: true, configurable: true, enumerable: true });
            }
        }
    }

    function note(state, fields) {
        if (run !== this || run.state === 'settled') return;
        Object.assign(run, fields, { state });
        if (!hooked) setImmediate(settle);
    }

    function evaluate(code) {
        const mine = run;
        let cell;
        try {
            cell = compile(code, `<cell ${cells}>`);
            makeRoom(cell.names);
        } catch (error) {
            if (error instanceof TypeError) broken(error); // user code cannot cause one here
            throw error;
        }
        let result = cell.script.runInThisContext({ displayErrors: false });
        if (!cell.isAsync) {
            apply(note, mine, ['settled', cell.hasValue ? { value: { value: result } } : {}]);
            return;
        }
        edited.add(mine.cell);
        if (edited.size > EDITED_MAX) edited.delete(edited.values().next().value);
        mine.state = 'waiting';
        result = result();
        apply(then, result, [
            (value) => { apply(note, mine, ['settled', { value }]); },
            (error) => { apply(note, mine, ['settled', { error: { error } }]); },
        ]);
    }

    function show(value, records) {
        if (value === undefined) return;
        showing.last(value);
        const text = inspect(value, { ...inspect.defaultOptions, colors: false, maxStringLength: RESULT_MAX });
        records.push(['R', encoded(text.includes(HERE) ? trimmed(text) : text)]);
        if (!('_' in globalThis) || globalThis._ === last) {
            own(globalThis, '_', value);
            last = value;
        }
    }

    function outcome() {
        if (run.interrupted) {
            const text = 'the run was interrupted';
            return [['N', 'Interrupted'], ['M', text], ['T', `Interrupted: ${text}\n`]];
        }
        if (run.exit !== undefined) return [['X', String(run.exit)]];
        const records = [];
        try {
            if (run.error) {
                // the SIGINT that ended a child of this run is about to end the run, too
                if (run.error.error?.signal === 'SIGINT') Atomics.wait(still, 0, 0, SETTLE_MS);
                records.push(...describe(run.error.error));
            }
            else if (run.value) show(run.value.value, records);
        } catch (error) {
            // a custom inspect() of user code may fail
            try {
                return describe(error);
            } catch {
                return [['N', 'Error'], ['M', 'an error that cannot be shown'], ['T', 'Error: an error that cannot be shown\n']];
            }
        }
        const code = Number(process.exitCode ?? 0);
        if (code !== 0 && !run.error) records.push(['X', String(code & 255)]);
        return records;
    }

    // Reports the run if it is over. Never in a guarded call, since an interrupt would cut the
    // report.
    function settle() {
        if (depth > 0 || run === null || run.state !== 'settled' || run.ending) return;
        run.ending = true;
        try {
            report();
        } catch (error) {
            broken(error);
        }
    }

    function report() {
        let records = [];
        const ended = guard(() => { records = outcome(); }) === GATE;
        if (ended) {
            run.interrupted = true;
            records = outcome();
        }
        if (run.interrupted || run.exit !== undefined) over = Math.max(over, run.cell);
        const { number, env } = run;
        for (const [key, value] of env) {
            if (value === undefined) delete process.env[key];
            else process.env[key] = value;
        }
        process.exitCode = undefined;
        streams.end();
        run = null;
        send([...records, ['D', String(number)]]);
        showing.reported();
    }

    function exit(code = process.exitCode) {
        if (run !== null && run.state !== 'settled') {
            run.exit = Number(code ?? 0) & 255;
            try {
                process.emit('exit', run.exit);
            } catch (error) {
                complain('Uncaught', error);
            }
            process.removeAllListeners('exit');
            if (depth > 0) {
                // terminates the code on the stack, whatever it catches
                process.kill(process.pid, 'SIGINT');
                for (let i = 0; i < 100; i++) Atomics.wait(still, 0, 0, 50);
            }
            run.state = 'settled';
            setImmediate(settle);
        }
        throw new Exit();
    }

    function enterEnvironment(pairs) {
        const before = [];
        for (const pair of pairs) {
            const at = pair.indexOf('=');
            const key = pair.slice(0, at);
            before.push([key, process.env[key]]);
            process.env[key] = pair.slice(at + 1);
        }
        return before.reverse();
    }

    function obey(data) {
        const number = data.readUInt32BE(0);
        if (data[4] === SYNC) {
            Atomics.wait(still, 0, 0, SETTLE_MS);
            takePending(); // the signal was for the last run
            send([['D', String(number)]]);
            return;
        }
        const counts = [data.readUInt32BE(5), data.readUInt32BE(9)];
        const fields = [];
        for (let at = HEAD; at < data.length;) {
            const end = at + 4 + data.readUInt32BE(at);
            fields.push(data.toString('utf8', at + 4, end));
            at = end;
        }
        const [code, ...words] = fields;
        run = { number, cell: ++cells, state: 'busy', env: enterEnvironment(words.slice(counts[0])) };
        process.argv = ['node', '', ...words.slice(0, counts[0])];
        streams.begin(data[4] === OPEN);
        showing.begin(number);
        preload(code);
        if (takePending() || missed) {
            // it was for this run and too early, or for the last one: the agent decides
            missed = false;
            send([['I', '']]);
        }
        const mine = run;
        try {
            guard(() => evaluate(code.replace(/^\ufeff/, '')));
        } catch (error) {
            apply(note, mine, ['settled', error instanceof Exit ? {} : { error: { error } }]);
        }
        tick();
    }

    function listen() {
        let parts = [];
        let have = 0;
        const socket = new net.Socket({ fd: REQUESTS, readable: true, writable: false });
        socket.on('data', (chunk) => {
            parts.push(chunk);
            have += chunk.length;
            while (have >= 4) {
                const need = 4 + (parts[0].length >= 4 ? parts[0] : Buffer.concat(parts)).readUInt32BE(0);
                if (have < need) return;
                const all = parts.length === 1 ? parts[0] : Buffer.concat(parts);
                parts = all.length > need ? [all.subarray(need)] : [];
                have = all.length - need;
                try {
                    obey(all.subarray(4, need));
                } catch (error) {
                    broken(error);
                }
            }
        });
        socket.on('error', () => process.reallyExit(ENDED));
        socket.on('close', () => process.reallyExit(0));
    }

    process.exit = exit;
    streams.install(internalBinding);
    process.on('uncaughtException', (error) => complain('Uncaught', error));
    process.on('unhandledRejection', (error) => complain('Uncaught (in promise)', error));
    own(globalThis, 'display', showing.display);
    showing.connect({ send, complain });

    // A listener of user code would take SIGINT away from the watchdog. So the driver keeps the
    // signal and calls the listeners itself.
    for (const listener of process.listeners('newListener')) {
        if (listener.name !== 'startListeningIfSignal') continue;
        process.removeListener('newListener', listener);
        process.on('newListener', (name) => { if (name !== 'SIGINT') listener(name); });
    }
    watchdog.startSigintWatchdog();
    let tick;
    try {
        tick = guardEntries();
    } catch {
        tick = () => {
            drain(process._tickCallback);
            settle();
        };
    }
    try {
        process.chdir(WORKSPACE);
    } catch {
        // the directory is gone; user code reports that if it matters
    }
    process.argv = ['node', ''];
    listen();
    process.on('SIGURG', look); // this handler tells the keeper that interrupts may be sent
})
