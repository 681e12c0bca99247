// Shows values: display(value), and the last value of a cell if it has a display method. Every
// representation becomes a file in the driver's directory and is reported by a V record
// (worker/agent/link/README.md). Files of the oldest runs are removed to make room.

(function (require) {
    'use strict';

    const fs = require('fs');
    const path = require('path');
    const { inspect } = require('util');

    const KEEP_BYTES = 24 << 20;
    const SHOWN_MAX = 128; // records of one run
    const EXTENSIONS = {
        'image/png': 'png', 'image/jpeg': 'jpg', 'image/gif': 'gif', 'image/webp': 'webp', 'image/svg+xml': 'svg',
        'text/html': 'html', 'text/plain': 'txt', 'text/markdown': 'md', 'text/latex': 'tex', 'application/json': 'json',
    };
    const MAGIC = [
        ['image/png', [0x89, 0x50, 0x4e, 0x47]],
        ['image/jpeg', [0xff, 0xd8, 0xff]],
        ['image/gif', [0x47, 0x49, 0x46, 0x38]],
        ['image/webp', [0x52, 0x49, 0x46, 0x46, -1, -1, -1, -1, 0x57, 0x45, 0x42, 0x50]],
    ];
    // Display methods of objects; those with an underscore are used by notebooks.
    const METHODS = { toHTML: 'text/html', _toHtml: 'text/html', _toSvg: 'image/svg+xml', _toPng: 'image/png', _toJpeg: 'image/jpeg' };
    const BUNDLE = Symbol.for('Jupyter.display');
    const IS_TYPE = /^[a-z0-9.+-]+\/[a-z0-9.+-]+$/;

    let wire;
    let directory;
    let run = 0;
    let number = 0;
    let shown = 0;
    let told = false;
    let held = 0;
    const files = []; // {run, file, size}, oldest first

    function leaveOut(why) {
        if (!told) process.stderr.write(`[display: ${why}; the rest of this run is left out]\n`);
        told = true;
    }

    function makeRoom(size) {
        while (files.length > 0 && held + size > KEEP_BYTES && files[0].run !== run) {
            const old = files.shift();
            held -= old.size;
            fs.rmSync(old.file, { force: true });
        }
        return held + size <= KEEP_BYTES;
    }

    // Images in a bundle of text are base64.
    function bytesOf(type, data) {
        if (data instanceof Uint8Array) return data;
        if (typeof data === 'string') {
            const isText = /^text\/|[+/](json|xml)$/.test(type);
            return Buffer.from(data, isText ? 'utf8' : 'base64');
        }
        return Buffer.from(JSON.stringify(data) ?? 'null');
    }

    function store(type, data) {
        if (shown >= SHOWN_MAX) return leaveOut(`more than ${SHOWN_MAX} things are shown`);
        if (!makeRoom(data.length)) return leaveOut(`more than ${KEEP_BYTES >> 20} MiB are shown`);
        directory ??= fs.mkdtempSync('/tmp/.cloister-display-');
        shown++;
        const file = path.join(directory, `${String(run).padStart(4, '0')}-${shown}.${EXTENSIONS[type] ?? 'bin'}`);
        fs.writeFileSync(file, data);
        files.push({ run, file, size: data.length });
        held += data.length;
        wire.send([['V', `${number}\n${type}\n${data.length}\n${file}`]]);
    }

    function storeAll(bundle) {
        const types = Object.keys(bundle).filter((type) => {
            if (type.length > 64 || !IS_TYPE.test(type)) throw new TypeError(`display: ${inspect(type)} is no MIME type`);
            return bundle[type] !== undefined && bundle[type] !== null;
        });
        number++;
        for (const type of types) store(type, bytesOf(type, bundle[type]));
    }

    function imageType(value) {
        if (!(value instanceof Uint8Array)) return undefined;
        return MAGIC.find(([, bytes]) => bytes.every((byte, i) => byte < 0 || value[i] === byte))?.[0];
    }

    // The representations of a value by MIME type; undefined if it has no display method.
    function bundleOf(value) {
        const image = imageType(value);
        if (image !== undefined) return { [image]: value };
        if (value === null || typeof value !== 'object') return undefined;
        for (const name of [BUNDLE, '_toMime']) {
            if (typeof value[name] === 'function') return value[name]();
        }
        const bundle = {};
        for (const name of Object.keys(METHODS)) {
            if (typeof value[name] === 'function') bundle[METHODS[name]] ??= value[name]();
        }
        return Object.keys(bundle).length > 0 ? bundle : undefined;
    }

    function display(value, options) {
        const bundle = options?.raw ? value : bundleOf(value) ?? { 'text/plain': typeof value === 'string' ? value : inspect(value) };
        if (bundle === null || typeof bundle !== 'object') throw new TypeError('display: {raw: true} takes an object of MIME types');
        if (typeof bundle.then === 'function') return bundle.then((settled) => storeAll(settled));
        storeAll(bundle);
        return undefined;
    }

    return {
        display,
        connect(to) { wire = to; },
        begin() {
            run++;
            told = false;
        },
        // What is shown between two runs belongs to the next, and is counted with it.
        reported() { number = shown = 0; },
        last(value) {
            const bundle = bundleOf(value);
            if (bundle && typeof bundle.then !== 'function') storeAll(bundle);
        },
    };
})
