// A proxy to a server that records what passes, and can be cut.

import { once } from 'node:events';
import { createServer, request } from 'node:http';

/** Everything sent to `url` goes to `target`. */
export async function startProxy(target) {
    const waiting = []; // {matches, resolve}: who wants to know of a request
    let cutting; // the next event stream that answers a POST is to be cut behind its first event

    const proxy = createServer((from, to) => {
        for (const one of waiting.filter(({ matches }) => matches(from))) {
            waiting.splice(waiting.indexOf(one), 1);
            one.resolve(from.headers);
        }
        const onward = request(new URL(from.url, target), { method: from.method, headers: from.headers }, (answer) => {
            to.writeHead(answer.statusCode, answer.headers);
            to.flushHeaders();
            const isToBeCut = cutting && from.method === 'POST' && /^text\/event-stream/.test(answer.headers['content-type']);
            const cut = isToBeCut ? cutting : undefined;
            cutting = isToBeCut ? undefined : cutting;
            answer.on('data', (chunk) => {
                to.write(chunk, () => {
                    if (cut && /^id:/m.test(chunk.toString())) {
                        to.destroy();
                        cut();
                    }
                });
            });
            answer.on('end', () => to.end());
        });
        onward.on('error', () => to.destroy());
        to.on('close', () => onward.destroy());
        from.pipe(onward);
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    return {
        url: `http://127.0.0.1:${proxy.address().port}`,
        /** The headers of the next request for which matches(request) is true. */
        seen(matches) {
            return new Promise((resolve) => {
                waiting.push({ matches, resolve });
            });
        },
        /** Resolved when a stream has been cut. */
        cutNextStream() {
            return new Promise((resolve) => {
                cutting = resolve;
            });
        },
        async close() {
            proxy.closeAllConnections();
            proxy.close();
            await once(proxy, 'close');
        },
    };
}
