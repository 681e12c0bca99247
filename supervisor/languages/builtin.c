/*
 * These rows work in a sandbox with default limits: a read-only root, a small home, half a GB of
 * memory that includes the files in /tmp, one CPU, 256 processes and threads, no network. Compilers
 * that would start a thread for each CPU of the host, or use half of its memory as heap, get
 * options against that.
 */
#include "supervisor/languages/builtin.h"

const struct languages_live languages_live[] = {
    {"python", "python3 py"},
    {"javascript", "js node nodejs"},
    {"bash", "sh shell"},
};
const size_t languages_live_count = sizeof(languages_live) / sizeof(languages_live[0]);

/* Types are removed but not checked, since the types of node are not installed. Top-level await
 * needs an ECMAScript module; everything else is CommonJS, which finds packages by NODE_PATH. The
 * compiler is the library beside tsc. */
static const char transpile[] =
    "const fs = require('fs'), path = require('path');"
    "const [file, dir] = process.argv.slice(1);"
    "const tsc = process.env.PATH.split(':').map(d => path.join(d, 'tsc')).find(fs.existsSync);"
    "const ts = require(path.join(path.dirname(fs.realpathSync(tsc)), '../lib/typescript.js'));"
    "let code = fs.readFileSync(file, 'utf8');"
    "if (/\\bawait\\b/.test(code)) code += '\\nexport {};';"
    "const tree = ts.createSourceFile('main.ts', code, ts.ScriptTarget.ES2022);"
    "const awaits = n => n.kind === ts.SyntaxKind.AwaitExpression || !!n.awaitModifier ||"
    "    (!ts.isFunctionLike(n) && !!ts.forEachChild(n, c => awaits(c) || undefined));"
    "const esm = awaits(tree);"
    "const made = ts.transpileModule(code, {fileName: 'main.ts', reportDiagnostics: true,"
    "    compilerOptions: {target: ts.ScriptTarget.ES2022, esModuleInterop: true,"
    "    module: esm ? ts.ModuleKind.ES2022 : ts.ModuleKind.CommonJS}});"
    "if (made.diagnostics.length > 0) {"
    "    process.stderr.write(ts.formatDiagnostics(made.diagnostics, {getNewLine: () => '\\n',"
    "        getCurrentDirectory: () => '', getCanonicalFileName: f => f}));"
    "    process.exit(1);"
    "}"
    "const main = path.join(dir, 'main.cjs');"
    "if (esm) {"
    "    fs.writeFileSync(path.join(dir, 'main.mjs'), made.outputText);"
    "    fs.writeFileSync(main, \"import('./main.mjs')\");"
    "    const packages = (process.env.NODE_PATH || '').split(':').find(p => p && "
    "fs.existsSync(p));"
    "    if (packages) fs.symlinkSync(packages, path.join(dir, 'node_modules'));"
    "} else fs.writeFileSync(main, made.outputText);";

#define C_FLAGS "-O1 -o {exe} {file} -lm -pthread"

/* clang-format off */
const struct languages_program languages_programs[] = {
    {.name = "typescript", .aliases = "ts", .file = "main.ts",
     .compile = "node -e $SCRIPT {file} {dir}", .script = transpile,
     .run = "node {dir}/main.cjs", .needs = "tsc"},
    {.name = "ruby", .aliases = "rb", .file = "main.rb", .run = "ruby {file}"},
    {.name = "perl", .aliases = "pl", .file = "main.pl", .run = "perl {file}"},
    {.name = "php", .aliases = "", .file = "main.php",
     .run = "php -d display_errors=stderr -d log_errors=0 -d html_errors=0 {file}"},
    {.name = "lua", .aliases = "", .file = "main.lua", .run = "lua5.4 {file}"},
    {.name = "lua", .aliases = "", .file = "main.lua", .run = "lua {file}"},
    {.name = "lua", .aliases = "", .file = "main.lua", .run = "lua5.3 {file}"},
    {.name = "lua", .aliases = "", .file = "main.lua", .run = "luajit {file}"},
    {.name = "r", .aliases = "rscript R", .file = "main.R", .run = "Rscript --vanilla {file}"},
    {.name = "go", .aliases = "golang", .file = "main.go",
     .compile = "env GO111MODULE=off GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-p=1 GOMAXPROCS=1 go build -o {exe} {file}",
     .run = "{exe}"},
    {.name = "c", .aliases = "", .file = "main.c", .compile = "cc " C_FLAGS, .run = "{exe}"},
    {.name = "c", .aliases = "", .file = "main.c", .compile = "gcc " C_FLAGS, .run = "{exe}"},
    {.name = "c", .aliases = "", .file = "main.c", .compile = "clang " C_FLAGS, .run = "{exe}"},
    {.name = "cpp", .aliases = "c++ cxx", .file = "main.cpp", .compile = "c++ " C_FLAGS, .run = "{exe}"},
    {.name = "cpp", .aliases = "", .file = "main.cpp", .compile = "g++ " C_FLAGS, .run = "{exe}"},
    {.name = "cpp", .aliases = "", .file = "main.cpp", .compile = "clang++ " C_FLAGS, .run = "{exe}"},
    {.name = "rust", .aliases = "rs", .file = "main.rs",
     .compile = "rustc --edition=2021 -C opt-level=1 -C debuginfo=0 -C codegen-units=1 -o {exe} {file}",
     .run = "{exe}", .needs = "cc"},
    {.name = "java", .aliases = "", .file = "Main.java",
     .run = "java -XX:-UsePerfData -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:CICompilerCount=1 -Xmx256m -Xss1m {file}",
     .needs = "javac"},
};
/* clang-format on */
const size_t languages_program_count = sizeof(languages_programs) / sizeof(languages_programs[0]);
