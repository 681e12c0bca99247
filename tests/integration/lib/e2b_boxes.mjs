// The sandboxes of the stand-in (e2b_standin.mjs): each is a process of this host with namespaces and a root of its own, made of this host's
// /usr as the pods of kube_pods.mjs are, and programs are started in it as root. So the real agent and the real relay run there.
// A program has a process of nsenter on the outside, which waits for it and stops itself when it is stopped: so these are stopped, woken and
// killed with the box, too.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SCRIPT = join(dirname(fileURLToPath(import.meta.url)), 'kube_pod.sh');
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
// the first process only reaps what others leave
const FIRST = ['python3', '-c', `
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
while True:
    signal.sigwait([signal.SIGCHLD])
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
`];
const UNSEEN = new Set(['ENOENT', 'ESRCH', 'EACCES']);

/** What `read` returns, undefined if the process has ended meanwhile or is another's. */
function ofProcess(read) {
    try {
        return read();
    } catch (problem) {
        if (UNSEEN.has(problem.code)) {
            return undefined;
        }
        throw problem;
    }
}

const childOf = (pid) => Number(ofProcess(() => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'))?.trim().split(' ')[0]) || undefined;
const namespaceOf = (pid) => ofProcess(() => readlinkSync(`/proc/${pid}/ns/pid`));
const kill = (pid, signal) => ofProcess(() => process.kill(pid, signal));

export class Box {
    constructor(directory) {
        this.directory = directory;
        this.programs = new Set();
    }

    /** Resolves when programs can be started in it. */
    async start() {
        mkdirSync(join(this.directory, 'root'), { recursive: true });
        writeFileSync(join(this.directory, 'plan'), '');
        const words = ['--pdeathsig', 'KILL', 'unshare', '-m', '-p', '-n', '-u', '-i', '-f', '--kill-child', SCRIPT, join(this.directory, 'root'), join(this.directory, 'plan'), 'rw'];
        this.child = spawn('setpriv', [...words, 'env', '-i', `PATH=${PATH}`, ...FIRST], { stdio: ['ignore', 'inherit', 'inherit', 'pipe'] });
        this.ended = new Promise((resolve) => this.child.once('exit', resolve));
        await new Promise((resolve, reject) => {
            this.child.stdio[3].once('data', resolve);
            this.child.once('exit', () => reject(new Error('a box does not start')));
        });
        this.pid = childOf(this.child.pid);
        this.namespace = namespaceOf(this.pid);
    }

    /** A program with pipes. */
    run(command, args, env, cwd, stdin) {
        const inside = ['env', '-i', '-C', cwd || '/', `PATH=${PATH}`, 'HOME=/root', 'USER=root', ...Object.entries(env).map(([k, v]) => `${k}=${v}`), command, ...args];
        const words = ['--pdeathsig', 'KILL', 'nsenter', '-t', String(this.pid), '-m', '-p', '-n', '-u', '-i', '-r', '-w', ...inside];
        const child = spawn('setpriv', words, { stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'] });
        this.programs.add(child);
        child.once('exit', () => this.programs.delete(child));
        return child;
    }

    static signal(child, signal) {
        const inside = childOf(child.pid);
        if (inside) {
            kill(inside, signal);
        } else {
            child.kill(signal);
        }
    }

    path(inside) {
        return join('/proc', String(this.pid), 'root', join('/', inside));
    }

    write(inside, data) {
        mkdirSync(dirname(this.path(inside)), { recursive: true });
        writeFileSync(this.path(inside), data, { mode: 0o666 });
    }

    read(inside) {
        return ofProcess(() => readFileSync(this.path(inside)));
    }

    stat(inside) {
        const found = ofProcess(() => statSync(this.path(inside)));
        return found && { name: basename(inside), path: inside, type: found.isDirectory() ? 2 : 1, size: BigInt(found.size), mode: found.mode & 0o7777, permissions: '', owner: 'root', group: 'root' };
    }

    /** Stops all its processes, or lets them go on, as a pause and a resume do. */
    freeze(frozen) {
        if (frozen) { // before those that they wait for
            this.programs.forEach((child) => child.kill('SIGSTOP'));
        }
        for (const pid of readdirSync('/proc')) {
            if (/^[0-9]+$/.test(pid) && namespaceOf(pid) === this.namespace) {
                kill(Number(pid), frozen ? 'SIGSTOP' : 'SIGCONT');
            }
        }
        this.frozen = frozen;
        this.wake(50);
    }

    /** Wakes what waits for its programs. One that has just seen its program stop stops itself when it is woken, and is woken again. */
    wake(times) {
        if (!this.frozen && times > 0) {
            this.programs.forEach((child) => child.kill('SIGCONT'));
            setTimeout(() => this.wake(times - 1), 20).unref();
        }
    }

    async end() {
        if (this.pid) {
            kill(this.pid, 'SIGKILL');
        }
        this.child.kill('SIGKILL');
        await this.ended;
        this.programs.forEach((child) => child.kill('SIGKILL'));
        rmSync(this.directory, { recursive: true, force: true });
    }
}
