"""Languages whose code is run by programs: each one that a sandbox offers runs, is compiled, fails and is
stopped as expected.

On the oci backend sandboxes contain this machine's programs; the image for engines contains its own. Both
report their languages, and others are refused.
"""

import json
import os
import signal
from collections import Counter

from common import NONE, ONE, ON_OCI, Server, Shared, Suite, clear, contains, equal, needs_runtime, poll
import mcp

needs_runtime()
# A program runs and ends as any process of the agent's: on engines only cases run that depend on the image
# and on the mounts of a container.
suite = Suite(NONE)
shared = Shared()

# Prints its arguments, copies its input, writes an error message, and exits with 3.
HELLO = {
    "typescript": 'import * as fs from "fs";\ninterface Greeting { to: string }\nconst g: Greeting = { to: process.argv.slice(2).join("|") };\n'
    'console.log(`hello ${g.to}`);\nprocess.stdout.write(fs.readFileSync(0, "utf8"));\nconsole.error("oops");\nprocess.exit(3);',
    "ruby": 'puts "hello #{ARGV.join("|")}"; print STDIN.read; STDERR.puts "oops"; exit 3',
    "perl": 'print "hello ", join("|", @ARGV), "\\n"; print while <STDIN>; print STDERR "oops\\n"; exit 3;',
    "php": '<?php echo "hello ", implode("|", array_slice($argv, 1)), "\\n"; echo stream_get_contents(STDIN); fwrite(STDERR, "oops\\n"); exit(3);',
    "lua": 'print("hello " .. table.concat(arg, "|")) io.write(io.read("a")) io.stderr:write("oops\\n") os.exit(3)',
    "r": 'cat("hello ", paste(commandArgs(TRUE), collapse="|"), "\\n", sep=""); cat(readLines(file("stdin")), sep="\\n"); message("oops"); quit(status=3)',
    "go": 'package main\nimport ("fmt"; "io"; "os"; "strings")\nfunc main() {\n fmt.Println("hello " + strings.Join(os.Args[1:], "|"))\n'
    ' io.Copy(os.Stdout, os.Stdin)\n fmt.Fprintln(os.Stderr, "oops")\n os.Exit(3)\n}',
    "c": '#include <stdio.h>\nint main(int c, char **v) {\n printf("hello %s|%s\\n", v[1], v[2]);\n int x;\n'
    ' while ((x = getchar()) != EOF) putchar(x);\n fprintf(stderr, "oops\\n");\n return 3;\n}',
    "cpp": '#include <iostream>\nint main(int c, char **v) {\n std::cout << "hello " << v[1] << "|" << v[2] << std::endl << std::cin.rdbuf();\n'
    ' std::cerr << "oops\\n";\n return 3;\n}',
    "rust": "use std::io::*;\nfn main() {\n let args: Vec<String> = std::env::args().skip(1).collect();\n println!(\"hello {}\", args.join(\"|\"));\n"
    ' let mut s = String::new();\n stdin().read_to_string(&mut s).unwrap();\n print!("{}", s);\n eprintln!("oops");\n std::process::exit(3);\n}',
    "java": 'public class Greeter {\n public static void main(String[] args) throws Exception {\n  System.out.println("hello " + String.join("|", args));\n'
    '  System.in.transferTo(System.out);\n  System.out.flush();\n  System.err.println("oops");\n  System.exit(3);\n }\n}',
}

# Not a valid program; compilers report it, interpreters exit as after a syntax error.
BROKEN = {
    "typescript": "const x: = 1;",
    "ruby": "def x(",
    "perl": "print (;",
    "php": "<?php echo (;",
    "lua": "print(",
    "r": "x <- (",
    "go": "package main\nfunc main() { unused := 1 }",
    "c": "int main(void) { return undeclared; }",
    "cpp": "int main() { return undeclared; }",
    "rust": 'fn main() { let x: i32 = "text"; }',
    "java": 'public class Main { int x = "text"; }',
}
COMPILED = {"typescript", "go", "c", "cpp", "rust"}

# Typical code beyond a first program: libraries, threads, errors.
MORE = {
    "typescript": ("enum E { A = 20, B }\nconst twice = async <T extends number>(x: T): Promise<number> => x * 2;\nconsole.log(await twice(E.B));", "42\n"),
    "ruby": ('require "json"; require "set"; puts JSON.dump([Set[1, 1].size, [1, 2].sum])', "[1,3]\n"),
    "perl": ("use strict; use warnings; use List::Util qw(sum); print sum(1..8) + 6, qq(\\n);", "42\n"),
    "php": ('<?php echo json_encode(array_map(fn($x) => $x * 2, [21])), ctype_alpha("x") ? "y" : "n", "\\n";', "[42]y\n"),
    "lua": ("local t = {} for i = 1, 8 do t[#t + 1] = i end print(#t, string.rep('x', 3))", "8\txxx\n"),
    "r": ("m <- lm(dist ~ speed, data = cars); cat(round(coef(m), 1), sd(1:3), '\\n')", "-17.6 3.9 1 \n"),
    "go": (
        'package main\nimport ("encoding/json"; "fmt"; "net/http"; "sync")\nfunc main() {\n var wg sync.WaitGroup\n var m sync.Mutex\n n := 0\n'
        ' for i := 0; i < 100; i++ { wg.Add(1); go func() { m.Lock(); n++; m.Unlock(); wg.Done() }() }\n wg.Wait()\n'
        ' text, _ := json.Marshal(map[string]int{"n": n})\n fmt.Println(string(text), http.StatusOK)\n}',
        '{"n":100} 200\n',
    ),
    "c": (
        "#include <math.h>\n#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *p) { *(double *)p = sqrt(*(double *)p); return 0; }\n"
        'int main(void) { double x = 1764; pthread_t t; pthread_create(&t, 0, f, &x); pthread_join(t, 0); printf("%g\\n", x); }',
        "42\n",
    ),
    "cpp": (
        "#include <algorithm>\n#include <iostream>\n#include <map>\n#include <thread>\n#include <vector>\nint main() { std::vector<int> v{3, 1, 2}; std::thread t([&] "
        '{ std::sort(v.begin(), v.end()); }); t.join(); std::map<std::string, int> m{{"k", v[2]}}; for (auto &[k, x] : m) std::cout << k << x << "\\n"; }',
        "k3\n",
    ),
    "rust": (
        "use std::{collections::HashMap, thread};\nfn main() {\n let hands: Vec<_> = (0..8).map(|i| thread::spawn(move || i * 2)).collect();\n"
        ' let sum: i32 = hands.into_iter().map(|h| h.join().unwrap()).sum();\n let mut m = HashMap::new();\n m.insert("sum", sum);\n println!("{:?}", m);\n}',
        '{"sum": 56}\n',
    ),
    "java": (
        "import java.util.concurrent.*;\nimport java.util.stream.*;\nclass Any {\n record P(int x) {}\n public static void main(String... a) throws Exception {\n"
        "  var pool = Executors.newFixedThreadPool(20);\n  System.out.println(pool.submit(() -> 42).get() + \" \" + IntStream.range(0, 10).parallel().sum() + \" \" + new P(1));\n"
        "  pool.shutdown();\n }\n}",
        "42 45 P[x=1]\n",
    ),
}
LIVE = {"python", "javascript", "bash"}
ALIASES = {"ts": "typescript", "rb": "ruby", "pl": "perl", "R": "r", "golang": "go", "c++": "cpp", "rs": "rust", "py": "python", "python3": "python", "sh": "bash"}
SECONDS = 60  # for compilers of a slow machine, and sanitised servers


def offered(server=None, sandbox=None):
    if server is None:
        server, sandbox = shared.get()
    return server.call("get_sandbox_status", sandbox_id=sandbox)["languages"]


def programs():
    return [language for language in offered() if language not in LIVE]


def run(language, code, **arguments):
    return shared.run(code, language=language, timeout_seconds=SECONDS, **arguments)


def simple():
    """An available language without a compiler; images for tests have perl."""
    return next(language for language in ("perl", "ruby", "lua", "php") if language in offered())


SLEEPS = {
    "perl": ('use POSIX; $| = 1; {ignore} if (fork() == 0) {{ setsid(); if (fork() == 0) {{ {ignore} open(STDOUT, ">/dev/null"); sleep 600; }} exit; }} wait; print "begun\\n"; sleep 600;', "$SIG{INT} = 'IGNORE';"),
    "ruby": ('$stdout.sync = true; {ignore} Process.detach(fork {{ Process.setsid; fork {{ {ignore} STDOUT.reopen("/dev/null"); sleep 600 }} }}); sleep 0.2; puts "begun"; sleep 600', "trap('INT', 'IGNORE');"),
}


def sleeper(stubborn):
    """Code that has left a process when it prints "begun", and then sleeps."""
    language = next(language for language in SLEEPS if language in offered())
    text, ignore = SLEEPS[language]
    return language, text.format(ignore=ignore if stubborn else "")


def living(sandbox):
    """The commands running in the sandbox, seen from outside."""
    namespaces = {mcp.pid_namespace(pid) for pid in mcp.agents_of(sandbox)} - {None}
    assert namespaces, f"no first process of {sandbox}"
    found = []
    for pid, _ in mcp.processes():
        if mcp.pid_namespace(pid) not in namespaces:
            continue
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if rest.split()[0] not in "ZX":
            found.append(name)
    return found


def resting():
    """A sandbox, and the commands that run in it when it is idle and its interpreter has started."""
    server, sandbox = shared.fresh()
    server.run("pass", sandbox_id=sandbox)
    return server, sandbox, sorted(living(sandbox))


def wait_for_rest(sandbox, before):
    """Waits until nothing runs that did not run before. Only a process of the agent may have gone: it has some for a moment, as when it looks for changed files."""

    def rested():
        now, then = Counter(living(sandbox)), Counter(before)
        return not now - then and set(then - now) <= {"agent", "cloister-agent"}

    poll(f"there is nothing but {before}", rested, found=lambda: sorted(living(sandbox)))


# ---- available languages ----


@suite.case("languages: the live ones first, then those whose programs the sandbox has, each once", engines=ONE)
def languages():
    found = offered()
    equal(found[0], "python")
    equal(len(found), len(set(found)))
    contains(found, "bash")
    equal([language for language in found if language not in LIVE and language not in HELLO], [], "known to this test")
    if ON_OCI:
        # the programs of this machine in the directories that a sandbox contains
        for language, program in {"perl": "perl", "ruby": "ruby", "php": "php", "lua": "lua5.4", "r": "Rscript", "go": "go", "c": "cc", "cpp": "c++"}.items():
            there = any(os.access(f"/usr/{place}/{program}", os.X_OK) for place in ("bin", "local/bin"))
            equal(language in found, there, language)


@suite.case("arguments, input, output and exit code in every language", engines=ONE)
def hello():
    for language in programs():
        done = run(language, HELLO[language], args=["a b", "--x"], stdin="in\nput\n")
        equal(done["stdout"], "hello a b|--x\nin\nput\n", language)
        equal(done["stderr"], "oops\n", language)
        equal((done["status"], done["exit_code"], done["language"]), ("error", 3, language))
        assert "interpreter" not in done and "error" not in done, done
        assert done["cpu_ms"] > 0 and done["max_rss_kb"] > 500, done


@suite.case("libraries and threads in every language", engines=ONE)
def more():
    for language in programs():
        code, wanted = MORE[language]
        done = run(language, code)
        equal((done["stdout"], done["stderr"], done["status"]), (wanted, "", "ok"), language)


@suite.case("code that does not compile is CompileError, and syntax errors are the language's")
def broken():
    for language in programs():
        done = run(language, BROKEN[language])
        equal((done["status"], done["stdout"]), ("error", ""), language)
        assert done["exit_code"] > 0 and len(done["stderr"]) > 10, done
        equal(done.get("error", {}).get("name"), "CompileError" if language in COMPILED else None, language)


@suite.case("what compiles to something that is no program is told as that")
def no_program():
    for language, code in {"go": "package shapes\nfunc Area() int { return 1 }", "rust": '#![crate_type = "lib"]\npub fn area() -> i32 { 1 }'}.items():
        if language in offered():
            done = run(language, code)
            equal((done["status"], done["exit_code"], done["error"]["name"]), ("error", 126, "CompileError"), language)
            contains(done["error"]["message"], "no program")


@suite.case("other names of languages, and the result has the one name")
def aliases():
    for alias, language in ALIASES.items():
        if language in offered():
            done = run(alias, BROKEN.get(language, "true" if language == "bash" else "1"))
            equal(done["language"], language)


@suite.case("what is no language, and what this sandbox lacks", engines=ONE)
def refused():
    server, sandbox = shared.get()
    result = server.request("tools/call", {"name": "execute_code", "arguments": {"code": "x", "language": "cobol", "sandbox_id": sandbox}})
    error = clear(result["structuredContent"]["error"])
    equal(error["code"], "invalid_argument")
    contains(error["message"], "python")
    contains(error["message"], "rust")
    missing = sorted(set(HELLO) - set(offered()))
    for language in missing:
        error = clear(server.start_call("execute_code", code="x", language=language, sandbox_id=sandbox).failed()["error"])
        equal(error["code"], "language_unavailable")
        contains(error["hint"], "this sandbox has python")


@suite.case("a program has the workspace as its directory, keeps nothing of another, and leaves nothing in /tmp", engines=ONE)
def surroundings():
    server, sandbox = shared.get()
    language = simple()
    code = {"perl": 'use Cwd; open(my $f, ">", "made-by-program"); print getcwd(), " ", $ENV{NAME} // "none", "\\n";', "ruby": 'File.write("made-by-program", ""); puts "#{Dir.pwd} #{ENV["NAME"] || "none"}"'}
    if language in code:
        equal(run(language, code[language], env={"NAME": "value"})["stdout"], "/workspace value\n")
        equal(run(language, code[language])["stdout"], "/workspace none\n")
        contains([entry["name"] for entry in server.call("list_files", sandbox_id=sandbox)["entries"]], "made-by-program")
    equal(shared.stdout("import glob; print(glob.glob('/tmp/run-*'))"), "[]\n")


@suite.case("signals: the program's own end, and which signal it was", engines=ONE)
def signals():
    language = simple()
    done = run(language, {"perl": "kill 'SEGV', $$; sleep 9;", "ruby": "Process.kill('KILL', $$); sleep 9"}.get(language, "x"))
    if language == "perl":
        equal((done["status"], done["exit_code"]), ("error", 139))
        contains(done["error"]["message"], "signal 11")
    if "c" in offered():
        done = run("c", "#include <stdio.h>\nint main(void) { puts(\"before\"); fflush(stdout); *(volatile int *)0 = 1; }")
        equal((done["status"], done["exit_code"], done["stdout"]), ("error", 139, "before\n"))


# ---- ends ----


@suite.case("at the deadline it is interrupted, then killed, with all that it has started", engines=ONE)
def deadline():
    server, sandbox, before = resting()
    for stubborn in (False, True):
        language, code = sleeper(stubborn)
        # enough time to begin, on a busy machine as well
        pending = server.start_call("execute_code", code=code, language=language, sandbox_id=sandbox, timeout_seconds=3)
        done = pending.failed()
        equal((done["status"], done["stdout"]), ("timeout", "begun\n"), f"stubborn: {stubborn}")
        assert done["duration_ms"] >= 2900, done  # nothing else ends it
        wait_for_rest(sandbox, before)
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("cancelled, it ends with all that it has started; others go on")
def cancelled():
    server, sandbox, before = resting()
    language, code = sleeper(True)
    other = server.start_call("execute_code", code="import time; time.sleep(3); 'other'", sandbox_id=sandbox)
    pending = server.start_call("execute_code", code=code, language=language, sandbox_id=sandbox)
    ident = poll("it runs", lambda: running(server, sandbox, language))
    poll("it has begun", lambda: server.call("get_execution", execution_id=ident, wait_seconds=0)["stdout"] == "begun\n")
    server.call("cancel_execution", execution_id=ident)
    equal(pending.failed()["status"], "cancelled")
    equal(other.structured()["result"], "'other'")
    wait_for_rest(sandbox, before)
    server.call("close_sandbox", sandbox_id=sandbox)


def running(server, sandbox, language):
    for execution in server.call("get_sandbox_status", sandbox_id=sandbox)["executions_recent"]:
        if execution["status"] == "running" and execution.get("language", language) == language:
            return execution["execution_id"]
    return None


@suite.case("more than run side by side: all of them run in the end")
def many():
    server, sandbox = shared.get()
    language = simple()
    code = {"perl": "select(undef, undef, undef, 0.2); print 'done';", "ruby": "sleep 0.2; print 'done'", "lua": "print('done')", "php": "done"}[language]
    waiting = [server.start_call("execute_code", code=code, language=language, sandbox_id=sandbox, timeout_seconds=20) for _ in range(20)]
    for pending in waiting:
        contains(pending.structured()["stdout"], "done")


SLOW = {
    "perl": "$| = 1; for my $i (0..199) { print 'line ', $i, ' ', 'x' x 200, \"\\n\"; if ($i == 20) { open(my $f, '>', 'begun'); close $f } select(undef, undef, undef, 0.01) }",
    "ruby": "$stdout.sync = true; 200.times { |i| puts \"line #{i} \" + 'x' * 200; File.write('begun', '') if i == 20; sleep 0.01 }",
}
LINES = "".join(f"line {i} {'x' * 200}\n" for i in range(200))


@suite.case("a worker killed while a program runs: its full result comes, once")
def worker_killed():
    server, sandbox = shared.fresh()
    language = next(language for language in SLOW if language in offered())
    pending = server.start_call("execute_code", code=SLOW[language], language=language, sandbox_id=sandbox)
    poll("output has begun", lambda: server.read_text("begun", sandbox) is not None)
    os.kill(server.worker_pid(sandbox), signal.SIGKILL)
    done = pending.structured()
    equal((done["stdout"], done["status"]), (LINES, "ok"))
    equal(server.call("get_sandbox_status", sandbox_id=sandbox)["worker"]["restarts"], 1)
    equal(offered(server, sandbox), offered())
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("a server killed while a program runs: the next one has its result, and runs programs", engines=ONE)
def server_killed():
    directory = mcp.temporary_directory()
    first = Server("--instance", "main", runtime_dir=directory)
    first.legacy()
    sandbox = first.call("create_sandbox")["sandbox_id"]
    language = next(language for language in SLOW if language in offered())
    first.start_call("execute_code", code=SLOW[language], language=language, sandbox_id=sandbox)
    ident = poll("it runs", lambda: running(first, sandbox, language))
    poll("output has begun", lambda: first.read_text("begun", sandbox) is not None)
    first.process.send_signal(signal.SIGKILL)
    first.wait_exit()
    with Server("--instance", "main", runtime_dir=directory) as second:
        second.legacy()
        done = second.start_call("get_execution", execution_id=ident, wait_seconds=30).structured()
        equal((done["stdout"], done["status"], done["language"]), (LINES, "ok", language))
        equal(second.run(SLOW[language], language=language, sandbox_id=sandbox)["stdout"], LINES)
        second.call("close_sandbox", sandbox_id=sandbox)


# ---- --languages ----


def write(content):
    path = os.path.join(mcp.temporary_directory(), "languages.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))
    return path


@suite.case("--languages adds one, and replaces one")
def more_languages():
    path = write(
        {
            "languages": [
                {"name": "shout", "aliases": ["yell"], "file": "text", "compile": ["env", "HOW=loud", "sh", "-c", "tr a-z A-Z <\"$1\" >\"$2\"; echo $HOW >\"$2.how\"", "sh", "{file}", "{exe}"], "run": ["sh", "-c", "cat {exe} {exe}.how; echo $1", "sh"]},
                {"name": "lua", "file": "main.lua", "run": ["cat", "{file}"]},
                {"name": "nowhere", "file": "x", "run": ["no-such-program"]},
            ]
        }
    )
    with Server("--languages", path) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        found = offered(server, sandbox)
        contains(found, "shout")
        assert "nowhere" not in found, found
        equal(server.run("hello\n", language="yell", args=["x"], sandbox_id=sandbox)["stdout"], "HELLO\nloud\nx\n")
        equal(server.run("replaced", language="lua", sandbox_id=sandbox)["stdout"], "replaced")
        tools = {tool["name"]: tool for tool in server.request("tools/list")["tools"]}
        for tool in ("execute_code", "create_run_close"):
            contains(tools[tool]["inputSchema"]["properties"]["language"]["enum"], "yell")
        equal(server.call("create_run_close", code="bye\n", language="shout", args=["y"])["stdout"], "BYE\nloud\ny\n")


@suite.case("a file of languages that is wrong: the server says what and does not start")
def wrong_files():
    row = {"name": "x", "file": "x", "run": ["x"]}
    for content, words in [
        ("{", "JSON"),
        ([], "languages"),
        ({"languages": {}}, "languages"),
        ({"languages": [], "other": 1}, '"other"'),
        ({"languages": [1]}, "row 1"),
        ({"languages": [row, dict(row, name="a b")]}, "row 2"),
        ({"languages": [dict(row, name="python")]}, "live"),
        ({"languages": [dict(row, aliases=["ruby"])]}, "taken"),
        ({"languages": [dict(row, file="../x")]}, "slash"),
        ({"languages": [dict(row, run=[])]}, "run"),
        ({"languages": [dict(row, run="x")]}, "list"),
        ({"languages": [dict(row, run=["env", "-i", "x"])]}, "env"),
        ({"languages": [dict(row, runs=["x"])]}, '"runs"'),
        ({"languages": [{"name": "x", "file": "x"}]}, "run"),
    ]:
        path = write(content)
        server = Server("--languages", path)
        assert server.wait_exit(20) != 0, content
        server.logger.join(30)
        contains(server.log_tail(), path)
        contains(server.log_tail(), words)
    server = Server("--languages", "/no/such/file")
    assert server.wait_exit(20) != 0
    server.logger.join(30)
    contains(server.log_tail(), "/no/such/file")


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
