// The host's page of the test of views: the reference bridge of MCP Apps (AppBridge) with a view in two frames, the outer one of another
// origin, as the extension wants it of hosts in browsers. Bundled for the browser by apps.mjs.

import { AppBridge, PostMessageTransport, getToolUiResourceUri } from '@modelcontextprotocol/ext-apps/app-bridge';

window.viewOf = getToolUiResourceUri;

/** Shows a view in the outer frame at `proxy`. What the view asks for goes to the test; what it says is kept in `window.said`. */
window.showView = async ({ html, csp, proxy, theme }) => {
    window.said = { sizes: [], calls: [] };
    const frame = document.createElement('iframe');
    frame.id = 'proxy';
    frame.style.width = '100%';
    frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms');
    const bridge = new AppBridge(null, { name: 'host', version: '1' }, { openLinks: {}, serverResources: {}, serverTools: {} }, { hostContext: { theme } });
    const proxyReady = new Promise((resolve) => {
        window.addEventListener('message', ({ source, data }) => source === frame.contentWindow && data?.method === 'ui/notifications/sandbox-proxy-ready' && resolve());
    });
    frame.src = proxy;
    document.body.append(frame);
    await proxyReady;
    const ready = new Promise((resolve) => {
        bridge.oninitialized = resolve;
    });
    bridge.onsizechange = ({ height }) => {
        window.said.sizes.push(height);
        frame.style.height = `${height}px`;
    };
    bridge.onreadresource = (params) => window.ask('resources/read', params);
    bridge.oncalltool = (params) => {
        window.said.calls.push(params);
        throw new Error('not in this test');
    };
    await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
    await bridge.sendSandboxResourceReady({ html, csp });
    await ready;
    window.bridge = bridge;
    return bridge.getAppVersion();
};
