// Installs Node packages into the package directory of a sandbox. Runs in an installer, by `node - TASK`.
//
// TASK is JSON: root, id, requirements, registry ("" = npm's own), limit_mb, build.
//
// npm works on a copy of what is there, in a staging directory inside the package directory. When it has ended well,
// each package that is new or another one than before is moved to its place by a rename. The only way out is a proxy that leads to the
// sources of packages (worker/door). No code of a package runs here, since it would share the package directory with code that has no way out, unless `build` says so: some cannot be used
// without their install scripts.
//
// On stdout: "+ NAME VERSION" for what was asked for, or "! KIND TEXT" if it failed. What npm says goes to stderr.

"use strict";
const fs = require("fs");
const path = require("path");
const { spawn } = require("child_process");

const task = JSON.parse(process.argv[2]);
const root = task.root;
const staging = path.join(root, `.staging-${task.id}`);
const LINES_KEPT = 400;
const BLOCK = 4096;
const NO_GIT = "/bin/false"; // in git's place
const KINDS = [
  ["space", /ENOSPC|EDQUOT|EFBIG|no space left on device/i],
  ["build", /command failed|gyp ERR|ELIFECYCLE|npm ERR! code 1\b/], // whatever went wrong in it
  ["certificate", /CERT_|SELF_SIGNED|UNABLE_TO_VERIFY_LEAF_SIGNATURE|ERR_TLS_CERT/],
  ["refused", /cloister: not let out/],
  ["network", /cloister: \S+ cannot be reached|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT/],
  ["not_found", /\bE404\b|\bETARGET\b|ENOVERSIONS|No matching version/],
  ["conflict", /\bERESOLVE\b/],
];

class Failure extends Error {
  constructor(kind, text) {
    super(text);
    this.kind = kind;
  }
}

const say = (...words) => fs.writeSync(1, `${words.join(" ")}\n`);

function remove(place) {
  fs.rmSync(place, { recursive: true, force: true });
}

// What it takes, in blocks: a file or directory takes one at least, so that very many empty ones are no way around the limit.
function sizeOf(top) {
  let total = 0;
  for (const entry of fs.existsSync(top) ? fs.readdirSync(top, { withFileTypes: true }) : []) {
    const place = path.join(top, entry.name);
    try {
      total += entry.isDirectory() ? BLOCK + sizeOf(place) : Math.max(1, Math.ceil(fs.lstatSync(place).size / BLOCK)) * BLOCK;
    } catch {
      // it went while we looked
    }
  }
  return total;
}

function read(place) {
  try {
    return JSON.parse(fs.readFileSync(place, "utf8"));
  } catch {
    return {};
  }
}

// ---- npm ----

function environment() {
  const keep = /^(https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|PATH|LANG)$/i;
  const kept = Object.entries(process.env).filter(([name]) => keep.test(name));
  const places = { HOME: path.join(staging, "home"), TMPDIR: path.join(staging, "tmp") };
  Object.values(places).forEach((place) => fs.mkdirSync(place, { recursive: true }));
  return { ...Object.fromEntries(kept), ...places };
}

// Which processes there are that have not ended, and the parent of each.
function living() {
  const found = new Map();
  for (const name of fs.readdirSync("/proc").filter((each) => /^[0-9]+$/.test(each))) {
    try {
      const [state, parent] = fs.readFileSync(`/proc/${name}/stat`, "utf8").replace(/^.*\)/s, "").trim().split(" ");
      if (!"ZX".includes(state)) {
        found.set(Number(name), Number(parent));
      }
    } catch {
      // it has ended
    }
  }
  return found;
}

function ancestry(parents, pid) {
  const found = new Set();
  for (let each = pid; parents.has(each); each = parents.get(each)) {
    found.add(each);
  }
  return found;
}

// Whether what it says goes to another process: node listens to its children by pairs of sockets, of which one end does not tell the other.
function isListenedTo(pid) {
  return [1, 2].some((fd) => {
    try {
      return /^(socket|pipe):/.test(fs.readlinkSync(`/proc/${pid}/fd/${fd}`));
    } catch {
      return false;
    }
  });
}

// A script may leave a process behind that holds the pipe on which it is listened to: then its end is never seen. It is ended when npm has nothing
// running any more.
function endDaemons(manager) {
  const parents = living();
  if ([...parents.values()].includes(manager)) {
    return;
  }
  const ours = ancestry(parents, process.pid);
  for (const pid of parents.keys()) {
    if (pid !== manager && !ours.has(pid) && !ancestry(parents, pid).has(manager) && isListenedTo(pid)) {
      try {
        process.kill(pid, "SIGKILL");
        fs.writeSync(2, `process ${pid}, which a script left behind, is ended\n`);
      } catch {
        // it has ended
      }
    }
  }
}

function runNpm(words) {
  return new Promise((resolve, reject) => {
    const lines = [];
    let rest = "";
    let tooLarge = false;
    const child = spawn("npm", words, { cwd: staging, env: environment(), stdio: ["ignore", "pipe", "pipe"] });
    // What is there, what is fetched and what is made of it; scripts may write beside the staging directory.
    const most = sizeOf(root) + 2 * task.limit_mb * 2 ** 20 + 64 * 2 ** 20;
    const watch = setInterval(() => {
      if (sizeOf(root) > most) {
        tooLarge = true;
        child.kill("SIGKILL");
      }
      endDaemons(child.pid);
    }, 1000);
    const take = (bytes) => {
      const parts = (rest + bytes.toString("utf8")).split("\n");
      rest = parts.pop().slice(-10000);
      for (const line of parts) {
        lines.push(line);
        fs.writeSync(2, `${line}\n`);
      }
      lines.splice(0, Math.max(0, lines.length - LINES_KEPT));
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.on("error", (problem) => {
      clearInterval(watch);
      const absent = problem.code === "ENOENT";
      reject(new Failure(absent ? "manager" : "other", absent ? "the image of the sandbox has no npm" : problem.message));
    });
    child.on("close", (status, signal) => {
      clearInterval(watch);
      if (status === 0) {
        resolve();
      } else if (tooLarge) {
        reject(new Failure("space", "it is larger than the limit of packages"));
      } else if (signal === "SIGKILL") {
        reject(new Failure("memory", "npm was killed, most likely for memory"));
      } else {
        const errors = lines.filter((line) => /^npm (ERR!|error)/.test(line));
        const found = KINDS.find(([, pattern]) => errors.some((line) => pattern.test(line)));
        if (!task.build && errors.some((line) => line.includes(NO_GIT))) {
          reject(new Failure("source", "it, or what it needs, comes by git"));
          return;
        }
        const kind = found && found[0] === "build" && !task.build ? ["source"] : found;
        const told = errors.map((line) => line.replace(/^npm (ERR!|error)\s*/, "")).filter((line) => line && !/^(code|errno|syscall|type) /.test(line));
        const door = errors.map((line) => line.match(/cloister: (not let out: .*?|\S+ cannot be reached: .*?)( - [A-Z]+ |$)/)).find((match) => match);
        if (door && ["refused", "network"].includes(kind && kind[0])) {
          reject(new Failure(kind[0], door[1]));
          return;
        }
        reject(new Failure(kind ? kind[0] : "other", told[0] || `npm ended with status ${status}`));
      }
    });
  });
}

// ---- into place ----

// The packages of a node_modules directory, those of scopes as @scope/name, and what npm keeps beside them.
function entries(modules) {
  const found = [];
  for (const name of fs.existsSync(modules) ? fs.readdirSync(modules) : []) {
    if (name.startsWith("@")) {
      fs.readdirSync(path.join(modules, name)).forEach((inner) => found.push(`${name}/${inner}`));
    } else {
      found.push(name);
    }
  }
  return found;
}

// What npm's own list says of a package and all that is nested in it.
function describe(lock, name) {
  const top = `node_modules/${name}`;
  const rows = Object.entries(lock.packages || {}).filter(([key]) => key === top || key.startsWith(`${top}/`));
  return JSON.stringify(rows);
}

// The packages that have install scripts and that were not there before.
function scripted() {
  const [now, before] = [staging, root].map((place) => read(path.join(place, "node_modules", ".package-lock.json")).packages || {});
  return Object.keys(now)
    .filter((place) => now[place].hasInstallScript && (before[place] || {}).version !== now[place].version)
    .map((place) => `${place.replace(/^.*node_modules\//, "")} ${now[place].version}`);
}

function merge() {
  const [from, to] = [path.join(staging, "node_modules"), path.join(root, "node_modules")];
  const lists = [from, to].map((place) => read(path.join(place, ".package-lock.json")));
  const old = path.join(staging, "old");
  let count = 0;
  const aside = (place) => fs.existsSync(place) && fs.renameSync(place, path.join(old, String(count++)));
  fs.mkdirSync(old);
  fs.mkdirSync(to, { recursive: true });
  const wanted = entries(from);
  for (const name of wanted.sort((a, b) => a.startsWith(".") - b.startsWith("."))) {
    const place = path.join(to, name);
    const same = !name.startsWith(".") && describe(lists[0], name) === describe(lists[1], name);
    if (!same || !fs.existsSync(place)) {
      fs.mkdirSync(path.dirname(place), { recursive: true });
      aside(place);
      fs.renameSync(path.join(from, name), place);
    }
  }
  entries(to)
    .filter((name) => !wanted.includes(name))
    .forEach((name) => aside(path.join(to, name)));
  for (const name of ["package-lock.json", "package.json"]) {
    fs.renameSync(path.join(staging, name), path.join(root, name));
  }
}

function nameOf(requirement) {
  return requirement.replace(/(?<=.)@.*$/, "");
}

async function main() {
  process.umask(0o022);
  fs.readdirSync(root)
    .filter((name) => name.startsWith(".staging-"))
    .forEach((name) => remove(path.join(root, name)));
  fs.mkdirSync(staging);
  try {
    fs.writeFileSync(path.join(staging, "package.json"), JSON.stringify({ private: true, ...read(path.join(root, "package.json")) }));
    for (const name of ["package-lock.json", "node_modules"]) {
      if (fs.existsSync(path.join(root, name))) {
        fs.cpSync(path.join(root, name), path.join(staging, name), { recursive: true, verbatimSymlinks: true });
      }
    }
    const words = ["install", "--prefix", staging, "--cache", path.join(staging, "cache"), "--no-audit", "--no-fund"];
    words.push("--no-update-notifier", "--no-progress", "--loglevel", "http");
    words.push("--fetch-retries", "2", "--fetch-retry-mintimeout", "500", "--fetch-retry-maxtimeout", "2000");
    words.push("--userconfig", path.join(staging, "npmrc"), "--globalconfig", path.join(staging, "globalrc"));
    if (task.registry) {
      words.push("--registry", task.registry);
    }
    if (!task.build) {
      words.push("--ignore-scripts", "--git", NO_GIT); // what comes by git would be built
    }
    await runNpm([...words, "--", ...task.requirements]);
    if (sizeOf(path.join(staging, "node_modules")) > task.limit_mb * 2 ** 20) {
      throw new Failure("space", `all packages together would take more than ${task.limit_mb} MiB`);
    }
    const waiting = task.build ? [] : scripted();
    merge();
    if (waiting.length > 0) {
      const names = waiting.slice(0, 20).join(", ");
      fs.writeSync(2, `install scripts were not run: ${names}; what does not work without them needs a server with --build-packages\n`);
    }
    for (const name of new Set(task.requirements.map(nameOf))) {
      say("+", name, read(path.join(root, "node_modules", name, "package.json")).version || "0");
    }
  } finally {
    remove(staging);
  }
}

main().catch((problem) => {
  const full = problem.code === "ENOSPC" || problem.code === "EDQUOT" || problem.code === "EFBIG";
  const kind = problem.kind || (full ? "space" : "other");
  say("!", kind, problem.message.replace(/\s+/g, " ").slice(0, 400));
  process.exitCode = 1;
});
