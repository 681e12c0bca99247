// The node of the stand-in (kube_standin.mjs): a pod is a process of this host with namespaces and a root of its own, made of what the pod's
// specification says: volumes, user, capabilities, command, environment. So the real agent runs in it, and exec runs the real relay. There are
// no control groups, and the image is this host's /usr whatever its name.

import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SCRIPT = join(dirname(fileURLToPath(import.meta.url)), 'kube_pod.sh');
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const LOG_BYTES = 8192; // of what the first process says, its end
const USUAL_CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FSETID', 'FOWNER', 'MKNOD', 'NET_RAW', 'SETGID', 'SETUID', 'SETFCAP', 'SETPCAP', 'NET_BIND_SERVICE', 'SYS_CHROOT', 'KILL', 'AUDIT_WRITE'];
const UNITS = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, k: 1e3, M: 1e6, G: 1e9 };

function bytesOf(quantity) {
    const [, number, unit] = /^([0-9.]+)([A-Za-z]*)$/.exec(String(quantity ?? '1Gi'));
    return Math.ceil(Number(number) * (UNITS[unit] ?? 1));
}

export class Pods {
    /** `find(kind, namespace, name)` gives other objects; `changed(pod)` is told of each change of a status. */
    constructor(directory, find, changed) {
        this.directory = directory;
        this.find = find;
        this.changed = changed;
        this.running = new Map(); // by uid: {child, pid, log}
        this.removed = new Set(); // uids of pods that are to end
        this.late = []; // functions that start those with the fault `late`
    }

    /** Begins what a scheduler and a kubelet would do; `fault` says what goes wrong with it. */
    start(pod, fault) {
        pod.status = { phase: 'Pending', qosClass: 'Burstable' };
        if (fault === 'unschedulable') {
            const message = '0/1 nodes are available: 1 Insufficient memory.';
            pod.status.conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }];
            this.changed(pod);
        } else if (fault === 'late') {
            this.waiting(pod, 'ContainerCreating');
            this.late.push(() => this.run(pod));
        } else if (fault === 'ErrImagePull' || fault === 'CreateContainerConfigError') {
            const image = pod.spec.containers[0].image;
            const message = fault === 'ErrImagePull' ? `rpc error: code = Unknown desc = manifest for ${image} not found: manifest unknown` : 'secret "absent" not found';
            this.waiting(pod, fault, message);
        } else {
            this.waiting(pod, 'ContainerCreating');
            setImmediate(() => this.run(pod, fault));
        }
    }

    /** Starts what was late. */
    go() {
        this.late.splice(0).forEach((begin) => begin());
    }

    waiting(pod, reason, message) {
        this.state(pod, { waiting: { reason, message } });
    }

    state(pod, state) {
        const container = pod.spec.containers[0];
        pod.status.conditions = [{ type: 'PodScheduled', status: 'True' }, { type: 'Ready', status: state.running ? 'True' : 'False' }];
        pod.status.containerStatuses = [{ name: container.name, image: container.image, imageID: 'stand-in', restartCount: 0, ready: !!state.running, started: !!state.running, state }];
        this.changed(pod);
    }

    /** The files of a ConfigMap as the kubelet lays them out, or a text that says what is missing. */
    addFiles(target, pod, source, mode, items) {
        const map = this.find('configmaps', pod.metadata.namespace, source.name);
        if (!map) {
            return source.optional ? undefined : `configmap "${source.name}" not found`;
        }
        const all = { ...Object.fromEntries(Object.entries(map.data ?? {}).map(([k, v]) => [k, Buffer.from(v)])),
            ...Object.fromEntries(Object.entries(map.binaryData ?? {}).map(([k, v]) => [k, Buffer.from(v, 'base64')])) };
        for (const item of items ?? Object.keys(all).map((key) => ({ key, path: key }))) {
            if (!(item.key in all)) {
                return `references non-existent config key: ${item.key}`;
            }
            const file = join(target, '..data_of_stand_in', item.path);
            mkdirSync(dirname(file), { recursive: true });
            writeFileSync(file, all[item.key]);
            chmodSync(file, item.mode ?? mode);
            const [top] = item.path.split('/');
            try {
                symlinkSync(join('..data', top), join(target, top));
            } catch (problem) {
                if (problem.code !== 'EEXIST') {
                    throw problem;
                }
            }
        }
        return undefined;
    }

    /** One line of the plan of kube_pod.sh for each mount. */
    plan(pod, directory) {
        const lines = [];
        const group = pod.spec.securityContext?.fsGroup;
        for (const mount of pod.spec.containers[0].volumeMounts ?? []) {
            const volume = pod.spec.volumes.find((v) => v.name === mount.name);
            if (volume.emptyDir) {
                const mode = group === undefined ? '0777' : '2777';
                lines.push(['tmpfs', mount.mountPath, mode, group ?? 0, bytesOf(volume.emptyDir.sizeLimit)].join(' '));
                continue;
            }
            const source = join(directory, `volume-${volume.name}`);
            mkdirSync(join(source, '..data_of_stand_in'), { recursive: true });
            symlinkSync('..data_of_stand_in', join(source, '..data'));
            const sources = volume.projected?.sources ?? [{ configMap: volume.configMap }];
            for (const { configMap } of sources) {
                const mode = (volume.projected ?? volume.configMap).defaultMode ?? 0o644;
                const problem = this.addFiles(source, pod, configMap, mode, configMap.items);
                if (problem) {
                    throw new Error(problem);
                }
            }
            lines.push(['bind', mount.mountPath, mount.subPath ? join(source, mount.subPath) : source].join(' '));
        }
        return lines.join('\n') + '\n';
    }

    /** The words that make of root the container's user, and begin its command. */
    become(pod, command) {
        const container = pod.spec.containers[0];
        const security = { ...pod.spec.securityContext, ...container.securityContext };
        const { drop = [], add = [] } = security.capabilities ?? {};
        const kept = drop.includes('ALL') ? [] : USUAL_CAPABILITIES.filter((c) => !drop.includes(c));
        const set = ['-all', ...[...kept, ...add].map((c) => `+${c.toLowerCase()}`)].join(',');
        const user = security.runAsUser ?? 0;
        const groups = [...(security.supplementalGroups ?? []), ...(security.fsGroup === undefined ? [] : [security.fsGroup])];
        const words = ['setpriv', '--reuid', user, '--regid', security.runAsGroup ?? user, ...(groups.length ? ['--groups', groups.join(',')] : ['--clear-groups']), '--inh-caps=-all', `--bounding-set=${set}`];
        if (security.allowPrivilegeEscalation === false) {
            words.push('--no-new-privs');
        }
        const env = (container.env ?? []).map(({ name, value }) => `${name}=${value ?? ''}`);
        return ['env', '-i', '-C', container.workingDir ?? '/', `PATH=${PATH}`, 'HOME=/root', 'HOSTNAME=sandbox', ...env, ...words, ...command].map(String);
    }

    run(pod, fault) {
        const uid = pod.metadata.uid;
        if (this.removed.has(uid)) {
            return;
        }
        const directory = join(this.directory, uid);
        mkdirSync(join(directory, 'root'), { recursive: true });
        try {
            writeFileSync(join(directory, 'plan'), this.plan(pod, directory));
        } catch (problem) {
            // as a kubelet: the reason is in an event only, and it goes on trying
            rmSync(directory, { recursive: true, force: true });
            setTimeout(() => this.run(pod, fault), 200).unref();
            return;
        }
        const container = pod.spec.containers[0];
        const command = fault === 'no agent' ? ['sleep', 'infinity'] : [...(container.command ?? []), ...(container.args ?? [])];
        const access = container.securityContext?.readOnlyRootFilesystem ? 'ro' : 'rw';
        const child = spawn('setpriv', ['--pdeathsig', 'KILL', 'unshare', '-m', '-p', '-n', '-u', '-i', '-f', '--kill-child', SCRIPT, join(directory, 'root'), join(directory, 'plan'), access,
            ...this.become(pod, command)], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
        const entry = { child, pid: 0, log: '', lost: fault === 'lost' };
        this.running.set(uid, entry);
        for (const stream of [child.stdout, child.stderr]) {
            stream.on('data', (data) => {
                entry.log = (entry.log + data).slice(-LOG_BYTES);
            });
        }
        child.stdio[3].once('data', () => {
            try {
                entry.pid = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')[0]);
            } catch (problem) {
                if (problem.code !== 'ENOENT' && problem.code !== 'ESRCH') {
                    throw problem;
                }
                return; // it has ended already
            }
            pod.status.phase = 'Running';
            pod.status.podIP = '192.0.2.20';
            this.state(pod, { running: { startedAt: new Date().toISOString() } });
            const seconds = pod.spec.activeDeadlineSeconds;
            if (seconds) {
                entry.deadline = setTimeout(() => this.fail(pod, 'DeadlineExceeded', 'Pod was active on the node longer than the specified deadline'), Math.min(seconds * 1000, 2 ** 31 - 1));
            }
        });
        child.on('exit', (code, signal) => {
            clearTimeout(entry.deadline);
            this.running.delete(uid);
            rmSync(directory, { recursive: true, force: true });
            if (pod.status.phase === 'Running' || pod.status.phase === 'Pending') {
                pod.status.phase = code === 0 ? 'Succeeded' : 'Failed';
            }
            if (entry.lost) { // its node says nothing
                return;
            }
            const exitCode = code ?? 128 + (signal === 'SIGKILL' ? 9 : 15);
            this.state(pod, { terminated: { exitCode, reason: entry.reason ?? (exitCode === 0 ? 'Completed' : 'Error') } });
            entry.ended?.();
        });
    }

    /** Ends it as a node does that is short of something: the object stays and says why. */
    fail(pod, reason, message) {
        Object.assign(pod.status, { phase: 'Failed', reason, message });
        this.kill(pod);
        this.changed(pod);
    }

    runOutOfMemory(pod) {
        const entry = this.running.get(pod.metadata.uid);
        entry.reason = 'OOMKilled';
        this.kill(pod);
    }

    kill(pod, signal = 'SIGKILL') {
        const entry = this.running.get(pod.metadata.uid);
        if (!entry) {
            return false;
        }
        if (entry.pid) {
            try {
                process.kill(entry.pid, signal);
            } catch (problem) {
                if (problem.code !== 'ESRCH') { // it has just ended, of which we hear soon
                    throw problem;
                }
            }
        } else {
            entry.child.kill('SIGKILL');
        }
        return true;
    }

    /** Whether a scheduler has found a place for it. */
    isOnNode(pod) {
        return !(pod.status.conditions ?? []).some((c) => c.type === 'PodScheduled' && c.status === 'False');
    }

    /** Ends it with the time that it is given, and calls `done` when it has ended. */
    remove(pod, seconds, done) {
        this.removed.add(pod.metadata.uid);
        const entry = this.running.get(pod.metadata.uid);
        if (!entry) {
            setImmediate(done);
            return;
        }
        if (entry.lost) {
            return;
        }
        entry.ended = done;
        if (seconds > 0) {
            this.kill(pod, 'SIGTERM');
            setTimeout(() => this.kill(pod), seconds * 1000).unref();
        } else {
            this.kill(pod);
        }
    }

    /** A process beside the container's, with pipes; undefined if the container does not run. */
    exec(pod, command) {
        const entry = this.running.get(pod.metadata.uid);
        if (!entry?.pid) {
            return undefined;
        }
        return spawn('nsenter', ['-t', entry.pid, '-m', '-p', '-n', '-u', '-i', '-r', '-w', ...this.become(pod, command)].map(String), { stdio: 'pipe' });
    }

    logs() {
        return Object.fromEntries([...this.running].map(([uid, { log }]) => [uid, log]));
    }
}
