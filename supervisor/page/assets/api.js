// Questions to the control API. The token is kept for this tab only.

const BASE = "../api/v1";
const KEY = "cloister-token";

export class Refused extends Error {
  constructor(status, { message, hint, code } = {}) {
    super([message || `the server answers ${status}`, hint].filter(Boolean).join(". "));
    this.status = status;
    this.code = code;
  }
  get wantsToken() {
    return this.status === 401 || this.status === 403;
  }
}

// An address that `cloister ui` has printed has the token behind the #, where it is not sent.
if (location.hash.length > 1) {
  sessionStorage.setItem(KEY, location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}

export const token = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

async function request(path, options = {}) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  const answer = await fetch(BASE + path, { ...options, headers, cache: "no-store", redirect: "error" });
  if (!answer.ok) {
    const body = await answer.json().catch(() => ({}));
    const error = typeof body.error === "object" ? body.error : { message: body.error_description };
    throw new Refused(answer.status, error);
  }
  return answer;
}

export const ask = async (path) => (await request(path)).json();
export const tell = async (method, path) => (await request(path, { method })).json();

// The objects of a stream of lines, as they come, until it ends or `signal` aborts it.
export async function* lines(path, signal) {
  const answer = await request(path, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

// Runs `round` at most every `ms`, and once more if it was wanted meanwhile.
export function paced(ms, round) {
  let timer = null, again = false;
  const run = async () => {
    again = false;
    try {
      await round();
    } finally {
      timer = setTimeout(() => {
        timer = null;
        if (again) start();
      }, ms);
    }
  };
  const start = () => {
    timer = true;
    run();
  };
  return () => {
    if (timer !== null) again = true;
    else start();
  };
}
