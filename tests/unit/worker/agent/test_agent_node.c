/*
 * Live JavaScript, as callers of execute_code use it.
 */
#include "tests/lib/needs.h"
#include "tests/unit/worker/agent/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

#define LANGUAGE "javascript"

/* Code, and the text of its last expression; NULL: no value. */
struct value {
    const char *code;
    const char *result;
};

static void assert_values(struct fixture *f, const struct value *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct agent_result *r = run(f, LANGUAGE, rows[i].code);
        assert_status(r, OP_STATUS_OK);
        if (rows[i].result == NULL) {
            assert_false(r->last.has_result);
        } else {
            assert_string_equal(r->result, rows[i].result);
        }
    }
}
#define ASSERT_VALUES(f, rows) assert_values(f, rows, sizeof(rows) / sizeof((rows)[0]))

static void variables_and_results_live(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, LANGUAGE, "let x = 40\nconsole.log('set')");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "set\n");
    assert_false(r->last.has_result);
    r = run(f, LANGUAGE, "x + 2");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    assert_string_equal(r->result, "42");
    assert_true(r->last.max_rss_kb > 1000);
    assert_true(r->last.duration_us > 0);
    static const struct value rows[] = {
        {"_ + 1", "43"},
        {"undefined", NULL},
        {"null", "null"},
        {"_", "null"},
        {"let x = 1; const y = {deep: [1, {a: {b: {}}}]}; class K { m() { return x } }", NULL},
        {"let x = 2; const y = 'again'; class K { m() { return x + 1 } } new K().m()", "3"},
        {"function g() { return y }\ng()", "'again'"},
        {"let x; x", NULL},
        {"var {a, ...rest} = {a: 1, b: 2}; const [c = 3] = []; [a, rest, c]", "[ 1, { b: 2 }, 3 ]"},
        {"{n: 1}", "{ n: 1 }"},
        {"if (a) { 5 }", NULL},
        {"const crypto = require('crypto'); crypto.createHash('md5').update('').digest('hex')",
         "'d41d8cd98f00b204e9800998ecf8427e'"},
        {"const _ = [7]; _", "[ 7 ]"},
        {"8", "8"},
        {"_", "[ 7 ]"},
        {"#!/usr/bin/env node\n'script'", "'script'"},
        {"'z\xc3\xbcrich \xf0\x9f\x90\x8d'", "'z\xc3\xbcrich \xf0\x9f\x90\x8d'"},
        {"", NULL},
        {"// nothing", NULL},
    };
    ASSERT_VALUES(f, rows);
}

static void code_may_await(void **state)
{
    struct fixture *f = fixture_of(state);
    static const struct value rows[] = {
        {"const nap = (ms, v) => new Promise(r => setTimeout(r, ms, v))", NULL},
        {"await nap(5, 'slept')", "'slept'"},
        {"let p = await nap(1, 1), q; const {s} = await nap(1, {s: 2}); class C {}\n"
         "function h() { return p + s }\nfor (var i = 0; i < 3; i++) { await null; var inner = i "
         "}\n"
         "[h(), i, inner, q, typeof C]",
         "[ 3, 3, 2, undefined, 'function' ]"},
        {"[p, s, h(), i, inner, new C().constructor.name]", "[ 1, 2, 3, 3, 2, 'C' ]"},
        {"let t = 0; for await (const v of [nap(1, 1), 2]) t += v; t", "3"},
        {"await (0, nap(1, 'second'))", "'second'"},
        {"nap(1, 'not awaited')", "Promise { <pending> }"},
        {"await Promise.all([1, 2].map(async v => 2 * v)) // a comment at the end", "[ 2, 4 ]"},
        {"(await nap(1, {f: 1})).f", "1"},
    };
    ASSERT_VALUES(f, rows);
}

static void modules_are_imported_in_every_form(void **state)
{
    struct fixture *f = fixture_of(state);
    static const struct value rows[] = {
        {"import fs, {readFileSync as read} from 'node:fs'\nimport * as path from 'path'\n"
         "import 'os'\n[read === fs.readFileSync, path.basename('/a/b')]",
         "[ true, 'b' ]"},
        {"read === fs.readFileSync", "true"},
        {"fs.writeFileSync('own.js', 'module.exports = {v: 7}');\n"
         "fs.writeFileSync('own.mjs', 'export default 8; export const named = 9');\n"
         "fs.mkdirSync('node_modules/pack', {recursive: true});\n"
         "fs.writeFileSync('node_modules/pack/package.json',"
         " '{\"name\":\"pack\",\"type\":\"module\",\"exports\":{\"import\":\"./i.js\"}}');\n"
         "fs.writeFileSync('node_modules/pack/i.js', 'export const where = import.meta.url');\n"
         "require('./own').v",
         "7"},
        {"import own, {named} from './own.mjs'; [own, named]", "[ 8, 9 ]"},
        {"const {where} = await import('pack'); path.basename(where)", "'i.js'"},
        {"const late = () => import('./own.mjs'); (await late()).named", "9"},
        {"path.basename(import.meta.dirname) === path.basename(process.cwd())", "true"},
        {"require.main === module", "true"},
        {"export const shown = 3\nexport default shown", NULL},
        {"shown", "3"},
    };
    ASSERT_VALUES(f, rows);
    struct agent_result *r = run(f, LANGUAGE, "import {nope} from 'fs'");
    assert_string_equal(r->name, "SyntaxError");
    assert_contains(r->message, "does not provide an export named 'nope'");
    /* a missing module may be installed later */
    r = run(f, LANGUAGE, "require('arrives')");
    assert_contains(r->message, "Cannot find module 'arrives'");
    r = run(f, LANGUAGE, "import 'arrives'");
    assert_contains(r->message, "Cannot find package 'arrives'");
    r = run(f, LANGUAGE,
            "fs.mkdirSync('node_modules/arrives/lib', {recursive: true});\n"
            "fs.writeFileSync('node_modules/arrives/package.json', '{\"main\":\"lib/m.js\"}');\n"
            "fs.writeFileSync('node_modules/arrives/lib/m.js', 'exports.is = true');\n"
            "[require('arrives').is, (await import('arrives')).is]");
    assert_string_equal(r->result, "[ true, true ]");
}

/* Code may define a global of any name, and can still use await and import. */
static void a_global_of_any_name_may_be_defined(void **state)
{
    static const char *const names[] = {
        "Array",   "BigInt",  "Boolean",    "Buffer",     "Date",     "Error",   "Function",
        "JSON",    "Map",     "Math",       "Number",     "Object",   "Promise", "Proxy",
        "Reflect", "RegExp",  "RangeError", "Set",        "String",   "Symbol",  "SyntaxError",
        "URL",     "WeakMap", "TypeError",  "Uint8Array", "parseInt", "process", "globalThis",
    };
    struct fixture *f = fixture_of(state);
    run(f, "bash", "echo 'export const five = 5' >five.mjs; echo 'exports.six = 6' >six.cjs");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        static const char *const ways[][2] = {
            {"function ", "() { return 'own' }"},
            {"var ", " = () => 'own'"},
            {"class ", " { static own() {} }"},
        };
        const char *const *way = ways[i % 3];
        char code[128];
        run(f, "javascript", "require('child_process').execSync('kill -9 $PPID')");
        snprintf(code, sizeof(code), "%s%s%s", way[0], names[i], way[1]);
        assert_status(run(f, "javascript", code), OP_STATUS_OK);
        struct agent_result *r = run(f, "javascript", "const two = await 2; two + await 3");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, "5");
        r = run(f, "javascript",
                "import { sep as slash } from 'path'\n"
                "import { five } from './five.mjs'\n"
                "import six from './six.cjs'\n"
                "console.log(slash, five, six.six)\n"
                "for await (const x of [7]) console.log(x, (await import('path')).sep)");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->out, "/ 5 6\n7 /\n");
        snprintf(code, sizeof(code), "typeof %s", names[i]);
        assert_string_equal(run(f, "javascript", code)->result, "'function'");
        r = run(f, "javascript", "const = 1");
        assert_string_equal(r->name, "SyntaxError");
        run(f, "javascript", "function later() { return 'later' }; await 0");
        assert_string_equal(run(f, "javascript", "later()")->result, "'later'");
    }
    run(f, "javascript", "require('child_process').execSync('kill -9 $PPID')");
}

/* Packages are found at the agent's path for them; this one cannot be found by require(). */
static void installed_packages_are_found(void **state)
{
    struct fixture *f = fixture_of(state);
    char *code = alloc_printf("mkdir -p %s/packages/node/node_modules/thing && cd $_ && "
                              "echo '{\"exports\": {\"import\": \"./it.mjs\"}}' >package.json && "
                              "echo 'export const what = \"found\"' >it.mjs",
                              f->agent.dir);
    assert_status(run(f, "bash", code), OP_STATUS_OK);
    free(code);
    struct agent_result *r = run(f, LANGUAGE, "import { what } from 'thing'; what");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "'found'");
    assert_string_equal(run(f, LANGUAGE, "(await import('thing')).what")->result, "'found'");
}

static void errors_show_the_users_lines_only(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, LANGUAGE, "function f(n) {\n  return n.x.y\n}\n\nf({})\n");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 1);
    assert_string_equal(r->name, "TypeError");
    assert_contains(r->message, "Cannot read properties of undefined");
    assert_contains(r->traceback, "\n    at f (<cell ");
    assert_contains(r->traceback, ":2:14)\n    at <cell ");
    assert_contains(r->traceback, ":5:1\n");
    assert_null(strstr(r->traceback, "cloister"));
    assert_null(strstr(r->traceback, "node:"));
    r = run(f, LANGUAGE, "const a = 1;\nlet b = ;");
    assert_string_equal(r->name, "SyntaxError");
    assert_contains(r->traceback, ":2\nlet b = ;\n        ^\n");
    r = run(f, LANGUAGE, "await 1;\nlet b = ;");
    assert_string_equal(r->name, "SyntaxError");
    assert_contains(r->traceback, ":2\nlet b = ;\n        ^\n");
    r = run(f, LANGUAGE,
            "async function bad() { await null; throw new RangeError('deep') }\nawait bad()");
    assert_string_equal(r->name, "RangeError");
    assert_contains(r->traceback, "at bad (<cell ");
    assert_null(strstr(r->traceback, "cloister"));
    r = run(f, LANGUAGE, "throw 'only words'");
    assert_string_equal(r->message, "'only words'");
    r = run(f, LANGUAGE,
            "class Mine extends Error { name = 'Mine' }\n"
            "throw new Mine('outer', {cause: new Error('inner')})");
    assert_string_equal(r->name, "Mine");
    assert_contains(r->traceback, "cause");
    assert_contains(r->traceback, "inner");
    r = run(f, LANGUAGE, "(function g() { g() })()");
    assert_string_equal(r->name, "RangeError");
    r = run(f, LANGUAGE, "({[require('util').inspect.custom]() { throw new Error('no text') }})");
    assert_status(r, OP_STATUS_ERROR);
    assert_string_equal(r->message, "no text");
    r = run(f, LANGUAGE, "require('fs').readFileSync('/nope')");
    assert_contains(r->traceback, "ENOENT");
    assert_contains(r->traceback, " {\n  errno: -2,");
    r = run(f, LANGUAGE, "'still here'");
    assert_string_equal(r->result, "'still here'");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

/* Uncaught errors are reported in the run during which they happen, and do not end the
 * interpreter. */
static void errors_that_nobody_catches_do_not_end_the_interpreter(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, LANGUAGE, "Promise.reject(new Error('unheard')); 1");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "1");
    assert_contains(r->err, "Uncaught (in promise) Error: unheard\n");
    r = run(f, LANGUAGE,
            "setTimeout(() => { throw new Error('in a timer') }, 1);\n"
            "await new Promise(r => setTimeout(r, 20)); 2");
    assert_string_equal(r->result, "2");
    assert_contains(r->err, "Uncaught Error: in a timer\n    at Timeout");
    assert_null(strstr(r->err, "cloister"));
    run(f, LANGUAGE,
        "go = said = false;\n"
        "timer = setInterval(() => {\n"
        "  if (go) { clearInterval(timer); said = true; console.log('from before'); throw new "
        "Error('late') }\n"
        "}, 1)");
    r = run(f, LANGUAGE, "go = true; while (!said) await new Promise(r => setTimeout(r, 1))");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "from before\n");
    assert_contains(r->err, "late");
    r = run(f, LANGUAGE, "process.nextTick(() => { throw new Error('next') }); 3");
    assert_string_equal(r->result, "3");
    assert_contains(r->err, "next");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void stdin_arguments_and_environment_arrive(void **state)
{
    struct fixture *f = fixture_of(state);
    struct view args[] = {view_of("one"), view_of("two words")};
    struct view env[] = {view_of("CL_TEST=a=b"), view_of("HOME=/elsewhere")};
    static const char *const codes[] = {
        "console.log(require('fs').readFileSync(0, 'utf8'), process.argv, process.env.CL_TEST)",
        "let all = ''; for await (const part of process.stdin) all += part;\n"
        "console.log(all, process.argv, process.env.CL_TEST)",
        "console.log(require('child_process').execSync('cat', {stdio: [0, 'pipe', 2]}) + '', "
        "process.argv, require('child_process').execSync('echo $CL_TEST') + '')",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct msg_start s = agent_code(&f->link, LANGUAGE, codes[i]);
        s.has_stdin = true;
        s.stdin_data = view_of("Ad\xc3\xa4\nrest\n");
        s.args = (struct view_list){args, 2};
        s.env = (struct view_list){env, 2};
        struct agent_result *r = run_start(f, &s);
        assert_status(r, OP_STATUS_OK);
        assert_contains(r->out, "Ad\xc3\xa4\nrest\n [ 'node', '', 'one', 'two words' ] a=b");
    }
    struct agent_result *r =
        run(f, LANGUAGE,
            "[process.env.CL_TEST, process.argv, require('fs').readFileSync(0).length, "
            "process.env.HOME === '/elsewhere']");
    assert_string_equal(r->result, "[ undefined, [ 'node', '' ], 0, false ]");
}

static void exiting_ends_the_run_and_not_the_interpreter(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, LANGUAGE, "kept = 'yes'");
    struct agent_result *r =
        run(f, LANGUAGE,
            "process.on('exit', c => console.log('bye', c));\nconsole.log('a')\n"
            "try { process.exit(3) } catch { } finally { console.log('not here') }");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 3);
    assert_string_equal(r->out, "a\nbye 3\n");
    assert_string_equal(r->traceback, "");
    static const struct {
        const char *code;
        int exit_code;
    } rows[] = {
        {"process.exit()", 0},
        {"await new Promise(r => setTimeout(() => process.exit(6), 1))", 6},
        {"await null; process.exit(7)", 7},
        {"require('fs').readFile('/dev/null', () => process.exit(8)); await new Promise(() => {})",
         8},
        {"process.exitCode = 9", 9},
        {"process.exit(256 + 2)", 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        r = run(f, LANGUAGE, rows[i].code);
        assert_status(r, rows[i].exit_code == 0 ? OP_STATUS_OK : OP_STATUS_ERROR);
        assert_int_equal(r->last.exit_code, rows[i].exit_code);
    }
    r = run(f, LANGUAGE, "kept");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "'yes'");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void all_output_arrives_in_order(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, LANGUAGE,
            "console.log('one'); process.stderr.write('err'); process.stdout.write('two\\n');\n"
            "console.error('!'); process.stdout.write(Buffer.from([255, 0, 10]));\n"
            "console.log('\\ud83d|')");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->out_len, strlen("one\ntwo\n") + 3 + strlen("\xef\xbf\xbd|\n"));
    assert_string_equal(r->err, "err!\n");
    r = run(f, LANGUAGE, "process.stdout.end('the end\\n'); process.stdout.destroy()");
    assert_string_equal(r->out, "the end\n");
    r = run(f, LANGUAGE, "for (let i = 0; i < 200000; i++) console.log(i); process.exit(0)");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->out_len, 1288890);
    r = run(f, LANGUAGE, "'x'.repeat(1e6)");
    assert_int_equal(r->last.result.len, LIMIT_RESULT);
    assert_contains(r->result + LIMIT_RESULT - 64, "bytes in all");
    r = run(f, LANGUAGE,
            "require('child_process').execFileSync('sh', ['-c', 'echo out; echo err >&2; ls "
            "/proc/self/fd'],"
            " {stdio: 'inherit'})");
    /* 3 is the directory that ls reads; no descriptor of ours is open */
    assert_string_equal(r->out, "out\n0\n1\n2\n3\n");
    assert_string_equal(r->err, "err\n");
}

static void an_interrupt_keeps_the_state(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, LANGUAGE, "kept = 'still'");
    static const char *const codes[] = {
        "console.log('in'); for (;;);",
        "console.log('in'); await new Promise(() => {})",
        "await null; console.log('in'); for (;;);",
        "async function m() { await new Promise(r => setTimeout(r, 1)); console.log('in'); for "
        "(;;); }\n"
        "await m()",
        "await new Promise(() => setTimeout(() => { console.log('in'); for (;;); }, 1))",
        /* two timers that are due at the same time */
        "setTimeout(() => {}, 1); const second = new Promise(r => setTimeout(r, 2));\n"
        "for (const end = Date.now() + 10; Date.now() < end;);\n"
        "await second; console.log('in'); for (;;);",
        "for (;;) { console.log('in'); await new Promise(r => setTimeout(r, 5)) }",
        "for (;;) { console.log('in'); try { await new Promise(r => setTimeout(r, 5)) } catch {} }",
        "console.log('in'); try { for (;;); } catch { for (;;); } finally { for (;;); }",
        "console.log('in'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
        "console.log('in'); require('child_process').execSync('sleep 60')",
        "({[require('util').inspect.custom]() { console.log('in'); for (;;); }})",
        "process.on('SIGINT', () => {}); console.log('in'); for (;;);",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct agent_result *r = run_interrupted(f, LANGUAGE, codes[i], 0);
        assert_string_equal(r->name, "Interrupted");
        assert_null(strstr(r->traceback, "cloister"));
        r = run(f, LANGUAGE, "kept");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, "'still'");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    }
    /* interrupted code does not go on during a later run */
    struct agent_result *r = run(f, LANGUAGE, "await new Promise(r => setTimeout(r, 50))");
    assert_string_equal(r->out, "");
}

static void an_interrupt_at_any_time_hits_its_run_only(void **state)
{
    struct fixture *f = fixture_of(state);
    static const char *const codes[] = {"await nap(600000)", "1", "await nap(1)"};
    run(f, LANGUAGE, "kept = 'still'; nap = ms => new Promise(r => setTimeout(r, ms))");
    interrupt_any_time(f, LANGUAGE, codes, "console.log(kept)");
}

/* The interrupt comes when the interpreter has hardly begun to start. */
static void an_interrupt_while_node_starts_is_not_lost(void **state)
{
    struct fixture *f = fixture_of(state);
    interrupt_at_start(f, LANGUAGE, "process.kill(process.pid, 'SIGKILL'); for (;;);",
                       "await new Promise(() => {})", "1");
}

static void an_interpreter_that_dies_is_replaced_and_says_how(void **state)
{
    struct fixture *f = fixture_of(state);
    static const struct death deaths[] = {
        {"console.log('last words'); process.reallyExit(5)", 5, "exited with code 5"},
        {"console.log('last words'); process.abort()", 128 + 6, "signal 6"},
        {"console.log('last words'); process.kill(process.pid, 9); for (;;);", 128 + 9, "signal 9"},
        {"console.log('last words'); require('fs').closeSync(4)", 70, "exited with code 70"},
    };
    die_and_return(f, LANGUAGE, deaths, sizeof(deaths) / sizeof(deaths[0]), "typeof lost",
                   "'undefined'");
}

/* Node ends itself when its heap is full, which is reported as such. */
static void a_full_heap_is_reported_as_memory(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, LANGUAGE, "const all = []; for (;;) all.push(new Array(100000).fill({}))");
    assert_status(r, OP_STATUS_MEMORY);
    assert_contains(r->message, "heap is full");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    r = run(f, LANGUAGE, "1 + 1");
    assert_string_equal(r->result, "2");
}

static void displays_are_reported_and_bounded(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, LANGUAGE,
            "display({'text/html': '<b>x</b>', 'application/json': {a: 1}}, {raw: true});\n"
            "display(Buffer.from('89504e470d0a1a0a', 'hex'));\n"
            "({toHTML() { return '<i>' }})");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "{ toHTML: [Function: toHTML] }");
    r = run(f, LANGUAGE, "display({'no type': 1}, {raw: true})");
    assert_string_equal(r->name, "TypeError");
    r = run(f, LANGUAGE, "for (let i = 0; i < 200; i++) display(i)");
    assert_status(r, OP_STATUS_OK);
    assert_contains(r->err, "more than 128 things");
}

static void megabytes_of_code_and_input_arrive(void **state)
{
    struct fixture *f = fixture_of(state);
    size_t size = 10u << 20;
    char *code = alloc_array(size + 64, 1);
    memcpy(code, "s = '", 5);
    memset(code + 5, 'x', size);
    memcpy(code + 5 + size, "'\ns.length + require('fs').readFileSync(0).length", 50);
    struct msg_start s = agent_code(&f->link, LANGUAGE, code);
    s.has_stdin = true;
    s.stdin_data = view_bytes(code, size);
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "20971520");
    free(code);
}

static int start_agent(void **state)
{
    return fixture_start_with(state,
                              (struct agent_options){.memory_bytes = 256u << 20, .packages = true});
}

int main(void)
{
    needs_program("node");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_and_results_live),
        cmocka_unit_test(code_may_await),
        cmocka_unit_test(modules_are_imported_in_every_form),
        cmocka_unit_test(a_global_of_any_name_may_be_defined),
        cmocka_unit_test(installed_packages_are_found),
        cmocka_unit_test(errors_show_the_users_lines_only),
        cmocka_unit_test(errors_that_nobody_catches_do_not_end_the_interpreter),
        cmocka_unit_test(stdin_arguments_and_environment_arrive),
        cmocka_unit_test(exiting_ends_the_run_and_not_the_interpreter),
        cmocka_unit_test(all_output_arrives_in_order),
        cmocka_unit_test(an_interrupt_keeps_the_state),
        cmocka_unit_test(an_interrupt_at_any_time_hits_its_run_only),
        cmocka_unit_test(an_interrupt_while_node_starts_is_not_lost),
        cmocka_unit_test(an_interpreter_that_dies_is_replaced_and_says_how),
        cmocka_unit_test(a_full_heap_is_reported_as_memory),
        cmocka_unit_test(displays_are_reported_and_bounded),
        cmocka_unit_test(megabytes_of_code_and_input_arrive),
    };
    return cmocka_run_group_tests_name("agent_node", tests, start_agent, fixture_stop);
}
