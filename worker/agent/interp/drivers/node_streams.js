// Streams of runs. Descriptors 0 to 2 are those of the run when it begins, open and blocking, whatever
// earlier code has closed, opened in their place, or made non-blocking.

(function (require) {
    'use strict';

    const fs = require('fs');
    const { Writable } = require('stream');
    const { inspect } = require('util');

    const PIPE = '/proc/self/fd/6'; // stdin that stays open
    const ENDED = 70; // exit code when the driver cannot go on
    const FULL_MS = 2; // until a full pipe is tried again
    const { closeSync, fstatSync, openSync, writeSync } = fs;
    const still = new Int32Array(new SharedArrayBuffer(4));

    // All who have a pipe share its flags: a program that makes it non-blocking for itself does so
    // for us.
    function writeAll(fd, data) {
        for (let rest = data; rest.length > 0;) {
            try {
                rest = rest.subarray(writeSync(fd, rest));
            } catch (error) {
                if (error.code !== 'EAGAIN') throw error;
                Atomics.wait(still, 0, 0, FULL_MS);
            }
        }
    }

    // Node's own streams write to pipes from the event loop, which a busy run does not enter, and
    // an interrupted write corrupts their state for good. This class writes at once and keeps no
    // state.
    class Output extends Writable {
        constructor(fd) {
            super();
            this.fd = fd;
            this._type = 'pipe';
        }

        write(chunk, encoding, done) {
            const data = typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk;
            if (!(data instanceof Uint8Array)) throw new TypeError(`cannot write ${inspect(chunk)}: neither text nor bytes`);
            try {
                writeAll(this.fd, data);
            } catch (error) {
                if (error.code === 'EBADF') process.reallyExit(ENDED);
                throw error;
            }
            const then = typeof encoding === 'function' ? encoding : done;
            if (typeof then === 'function') process.nextTick(then);
            return true;
        }

        // Does not close: the next run uses the stream, too.
        end(chunk, encoding, done) {
            const then = [chunk, encoding, done].find((x) => typeof x === 'function');
            if (chunk !== undefined && chunk !== null && typeof chunk !== 'function') this.write(chunk, encoding);
            if (then) process.nextTick(then);
            return this;
        }

        destroy() {
            return this;
        }
    }

    function stream(name, value) {
        Object.defineProperty(process, name, {
            get: () => value,
            set: (other) => { value = other; },
            configurable: true,
            enumerable: true,
        });
    }

    // A descriptor and a spare one for the same file.
    function known(fd, flags) {
        const spare = openSync(`/proc/self/fd/${fd}`, flags);
        const { dev, ino } = fstatSync(spare);
        return { fd, flags, path: `/proc/self/fd/${spare}`, dev, ino };
    }

    function isThere(of) {
        try {
            const { dev, ino } = fstatSync(of.fd);
            return dev === of.dev && ino === of.ino;
        } catch {
            return false;
        }
    }

    // What is opened next gets the lowest free number, unless a thread of earlier code is quicker.
    function reopen(of, path) {
        try {
            closeSync(of.fd);
        } catch {
            // code has done so
        }
        of.fd = openSync(path, of.flags);
    }

    // Descriptor 0 is a file into which the agent writes each run's stdin, and which it rewinds, or
    // the pipe. The agent cannot rewind what was opened here, so that is done for each run from
    // then on.
    const source = known(0, 'r');
    const outputs = [known(1, 'w'), known(2, 'w')];
    let reopened = false;
    let input; // process.stdin of the current run

    // Node has no call for the flags of a descriptor, but its handles for pipes have.
    const handles = [];

    function openHandles(internalBinding) {
        const { Pipe, constants } = internalBinding('pipe_wrap');
        for (const { fd } of outputs) {
            const handle = new Pipe(constants.SOCKET);
            handle.open(fd);
            handles.push(handle);
        }
    }

    return {
        ENDED,
        writeAll,

        install(internalBinding) {
            try {
                openHandles(internalBinding);
            } catch {
                // not in this node: flags stay as they are
            }
            stream('stdout', new Output(1));
            stream('stderr', new Output(2));
            Object.defineProperty(process, 'stdin', {
                get() {
                    if (input === undefined) {
                        input = new fs.ReadStream(null, { fd: source.fd, autoClose: false });
                        input.on('error', () => {});
                    }
                    return input;
                },
                set(other) { input = other; },
                configurable: true,
                enumerable: true,
            });
        },

        begin(open) {
            if (open || reopened || !isThere(source)) {
                reopened = true;
                reopen(source, open ? PIPE : source.path);
            }
            for (const output of outputs) {
                if (!isThere(output)) reopen(output, output.path);
            }
            for (const handle of handles) handle.setBlocking(true);
        },

        end() {
            input?.destroy();
            input = undefined;
        },
    };
})
