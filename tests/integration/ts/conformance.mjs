// The official conformance suite with both sets of requirements, each scenario a case: against the fixture
// all of them, against cloister itself those that need no tool, resource or prompt of the fixture.
//
// usage: conformance.mjs fixture|cloister

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { startServer } from './server.mjs';
import { Skip, needsRuntime, note, program, run, runtimeDirectory, test } from './tap.mjs';

const SUITE = join(dirname(fileURLToPath(import.meta.url)), '..', 'node_modules', '@modelcontextprotocol', 'conformance');
const PATIENT = new URL('patient.mjs', import.meta.url).href;
const REVISIONS = ['2025-11-25', '2026-07-28'];
const RUN_MS = 240000;

// Scenarios that call a tool, read a resource or get a prompt that only the fixture has.
const NEEDS_FIXTURE = {
    'completion-complete': 'asks for an argument of a prompt',
    'http-custom-header-server-validation': 'needs a tool with x-mcp-header',
    'json-schema-2020-12': 'needs a tool with that schema',
    'logging-set-level': 'needs logging to clients',
    'server-sse-polling': 'calls a tool that lets the client come back',
    'tasks-status-notifications': 'does nothing',
};
const NEEDS_FIXTURE_PREFIX = {
    'elicitation-': 'calls tools that ask the user',
    'input-required-result-': 'calls tools that ask the client',
    'prompts-': 'needs prompts',
    'resources-read-': 'reads resources with given URIs',
    'resources-subscribe': 'names a resource of the fixture',
    'resources-templates-': 'reads resources with given URIs',
    'resources-unsubscribe': 'names a resource of the fixture',
    'tasks-': 'calls tools that become tasks',
    'tools-call-': 'calls tools with given names',
};
// Single checks that need the fixture, in scenarios that otherwise do not.
const CHECKS_WITH_FIXTURE = {
    'sep-2549-prompts-list-caching-hints': 'lists prompts, of which we have none',
    'sep-2575-server-rejects-undeclared-capability': 'calls test_missing_capability',
    'sep-2575-missing-capability-http-400': 'calls test_missing_capability',
    'sep-2575-http-server-no-independent-requests-on-stream': 'calls test_streaming_elicitation',
    'sep-2575-server-no-log-without-loglevel': 'calls test_logging_tool',
};

/** The scenarios for servers that a revision requires, and those that are run but not counted. */
function requirements(revision) {
    const text = readFileSync(join(SUITE, 'requirements', `${revision}.yaml`), 'utf8');
    const block = text.match(/^server:\n((?: {2}- \S+\n)+)/m)[1];
    const required = [...block.matchAll(/- (\S+)/g)].map((match) => match[1]);
    const unscored = [...text.matchAll(/- scenario: (\S+)\n +leg: server\n/g)].map((match) => match[1]);
    return { required, unscored };
}

/** Runs a whole set: scenario -> its checks. */
async function runSet(url, revision) {
    const directory = mkdtempSync(join(tmpdir(), 'conformance'));
    try {
        // Its exit status only repeats its checks: with failures, their text comes with the error of the
        // call.
        const said = await promisify(execFile)(
            process.execPath,
            ['--import', PATIENT, join(SUITE, 'dist', 'index.js'), 'server', '--url', `${url}/mcp`, '--requirements', revision, '-o', directory],
            { encoding: 'utf8', timeout: RUN_MS, maxBuffer: 64 << 20 },
        ).then((done) => done.stdout + done.stderr, (failed) => `${failed.stdout}${failed.stderr}`);
        const results = new Map();
        for (const entry of readdirSync(directory)) {
            const scenario = entry.match(/^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/)[1];
            results.set(scenario, JSON.parse(readFileSync(join(directory, entry, 'checks.json'), 'utf8')));
        }
        return { results, said };
    } finally {
        rmSync(directory, { recursive: true, force: true });
    }
}

function describe(check) {
    return `${check.id}: ${check.errorMessage ?? check.description}\n${JSON.stringify(check.details ?? {}).slice(0, 2000)}`;
}

function judge(checks, passedOver) {
    const judged = checks.filter((check) => !(check.id in passedOver));
    // warnings are about recommendations, which we follow as well
    const failures = judged.filter((check) => check.status === 'FAILURE' || check.status === 'WARNING');
    assert.equal(failures.length, 0, failures.map(describe).join('\n'));
    if (!judged.some((check) => check.status === 'SUCCESS')) {
        throw new Skip(`the suite checks nothing here: ${judged.map((check) => check.errorMessage ?? check.description).join('; ')}`.replace(/\s+/g, ' '));
    }
}

function whyFixture(scenario) {
    const prefix = Object.keys(NEEDS_FIXTURE_PREFIX).find((each) => scenario.startsWith(each));
    return NEEDS_FIXTURE[scenario] ?? NEEDS_FIXTURE_PREFIX[prefix];
}

/** A sandbox with a file in it, for scenarios that read the first resource there is. */
async function makeResource(url) {
    for (const [name, args] of [
        ['create_sandbox', { name: 'conformance' }],
        ['write_file', { sandbox_id: 'conformance', path: 'resource.txt', content: 'there' }],
    ]) {
        const answer = await fetch(`${url}/mcp`, {
            method: 'POST',
            headers: {
                'Content-Type': 'application/json',
                Accept: 'application/json',
                'MCP-Protocol-Version': '2026-07-28',
                'Mcp-Method': 'tools/call',
                'Mcp-Name': name,
            },
            body: JSON.stringify({
                jsonrpc: '2.0',
                id: 1,
                method: 'tools/call',
                params: {
                    name,
                    arguments: args,
                    _meta: {
                        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
                        'io.modelcontextprotocol/clientCapabilities': {},
                    },
                },
            }),
        });
        const { result } = await answer.json();
        assert.ok(result && !result.isError, JSON.stringify(result));
    }
}

const withFixture = process.argv[2] === 'fixture';
if (!withFixture) {
    needsRuntime();
}
const server = withFixture
    ? await startServer(process.env.FIXTURE)
    : await startServer(program, ['--runtime-dir', runtimeDirectory()]);

if (!withFixture) {
    test('there is a resource', () => makeResource(server.url));
}
for (const revision of REVISIONS) {
    const { required, unscored } = requirements(revision);
    let set;
    test(`${revision}: the suite runs`, async () => {
        assert.ok(required.length >= 30, `${required.length} scenarios are required`);
        set = await runSet(server.url, revision);
        assert.ok(set.results.size > 0, set.said);
    });
    for (const scenario of [...required, ...unscored]) {
        const why = withFixture ? undefined : whyFixture(scenario);
        if (why) {
            note(`${revision}: ${scenario} is for the fixture only: ${why}`);
            continue;
        }
        test(`${revision}: ${scenario}${required.includes(scenario) ? '' : ' (not counted by the suite)'}`, () => {
            const checks = set.results.get(scenario);
            assert.ok(checks, `${scenario} gave no result`);
            judge(checks, withFixture ? {} : CHECKS_WITH_FIXTURE);
        });
    }
}
test('the server ends without complaint', () => server.stop());
await run();
