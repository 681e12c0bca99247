// What the service's OpenAPI files say of a request and of its answer. The files themselves are in no package; but the official SDK ships the types
// that openapi-typescript has made of them, which are as regular as a schema: an interface `paths` of operations, and `components` for what they
// share. They are read here into JSON Schemas, so what is checked is that of the SDK that the lock file names, and nobody has to copy or to update it.
//
//   const contract = new Contract(text of index.d.ts, a path that only the API in question has, tester)
//   const operation = contract.operation(method, pathname)      undefined if there is none
//   operation.request(url, headers, body)                       what is wrong, or undefined
//   operation.answer(code, body)                                the same
//
// where `tester` makes of a schema a function that returns what is wrong with a value, or undefined.
// The types say less than the files: no ranges or patterns, and of a number that it is an integer only in the comment in front of it.

const TOKEN = /\s*(\/\*[\s\S]*?\*\/|\/\/.*|"(?:[^"\\]|\\.)*"|[A-Za-z_$][\w$]*|-?\d+(?:\.\d+)?|[^\s])/y;
const PLAIN = { string: { type: 'string' }, boolean: { type: 'boolean' }, number: { type: 'number' }, null: { type: 'null' }, unknown: {}, never: { not: {} } };
const FORMATS = { int32: { type: 'integer' }, int64: { type: 'integer' }, 'date-time': { format: 'date-time' } };

/** The types of one declaration, as schemas. A member of an object is a property; a name in brackets behind a type is one of its properties. */
class Types {
    constructor(text, from) {
        this.text = text;
        TOKEN.lastIndex = from;
        this.next();
    }

    next() {
        const before = this.token;
        this.comment = '';
        do {
            this.token = TOKEN.exec(this.text)?.[1];
            if (this.token === undefined) {
                throw new Error('the types end in the middle');
            }
            this.comment += this.token.startsWith('/*') ? this.token : '';
        } while (/^\/[/*]/.test(this.token));
        return before;
    }

    take(token) {
        if (this.token !== token) {
            throw new Error(`"${this.token}" where "${token}" was expected in ${this.text.slice(TOKEN.lastIndex - 200, TOKEN.lastIndex)}`);
        }
        return this.next();
    }

    has(token) {
        return this.token === token && Boolean(this.next());
    }

    type() {
        this.has('|');
        const each = [this.both()];
        while (this.has('|')) {
            each.push(this.both());
        }
        return each.length === 1 ? each[0] : { anyOf: each };
    }

    both() {
        const each = [this.many()];
        while (this.has('&')) {
            each.push(this.many());
        }
        return each.length === 1 ? each[0] : { allOf: each };
    }

    many() {
        let found = this.one();
        while (this.has('[')) {
            if (this.has(']')) {
                found = { type: 'array', items: found };
            } else {
                found = { from: found, member: JSON.parse(this.next()) };
                this.take(']');
            }
        }
        return found;
    }

    one() {
        if (this.token === '{') {
            return this.object();
        }
        if (this.has('(')) {
            const inner = this.type();
            this.take(')');
            return inner;
        }
        const word = this.next();
        if (/^["\d-]/.test(word)) {
            return { const: JSON.parse(word) };
        }
        if (word === 'true' || word === 'false') {
            return { const: word === 'true' };
        }
        if (this.has('<')) { // Record<string, never>, which is an empty object
            this.type();
            this.take(',');
            const value = this.type();
            this.take('>');
            return { type: 'object', additionalProperties: value };
        }
        return PLAIN[word] ?? { name: word };
    }

    object() {
        const made = { type: 'object', properties: {}, required: [], additionalProperties: false };
        this.take('{');
        while (this.token !== '}') {
            const format = FORMATS[/Format: (\S+)/.exec(this.comment)?.[1]];
            if (this.has('[')) { // any name
                this.next();
                this.take(':');
                this.take('string');
                this.take(']');
                this.take(':');
                made.additionalProperties = this.type();
            } else {
                const key = this.next();
                const name = key.startsWith('"') ? JSON.parse(key) : key;
                const isOptional = this.has('?');
                this.take(':');
                const type = this.type();
                made.properties[name] = format && type.type ? { ...type, ...format } : type;
                if (!isOptional) {
                    made.required.push(name);
                }
            }
            this.take(';');
        }
        this.take('}');
        return made;
    }
}

/** All declarations `interface NAME {…}` that openapi-typescript has made: `paths`, `components` and those with a number behind. */
function declared(text) {
    const found = new Map();
    for (const each of text.matchAll(/^interface ((?:paths|components)(?:\$\d+)?) (?=\{)/gm)) {
        found.set(each[1], new Types(text, each.index + each[0].length).object());
    }
    return found;
}

class Operation {
    constructor(contract, title, { properties: { parameters, requestBody, responses }, required }) {
        const part = (schema, name) => contract.resolved(contract.resolved(schema).properties[name]);
        this.title = title;
        this.query = part(parameters, 'query').properties ?? {};
        const body = contract.resolved(requestBody ?? PLAIN.never);
        this.bodies = body.properties && contract.resolved(body.properties.content).properties;
        this.isNeeded = Boolean(this.bodies) && required.includes('requestBody');
        this.responses = contract.resolved(responses).properties;
        this.contract = contract;
    }

    request(url, headers, body) {
        const wrong = this.wrongQuery(url) ?? this.wrongBody(headers['content-type'] ?? '', body);
        return wrong && `${this.title}: ${wrong}`;
    }

    wrongQuery(url) {
        for (const name of new Set(url.searchParams.keys())) {
            const schema = this.query[name] && this.contract.resolved(this.query[name]);
            if (!schema) {
                return `there is no query parameter "${name}"`;
            }
            const given = url.searchParams.getAll(name);
            const value = schema.type === 'array' ? given.flatMap((each) => each.split(',')) : schema.type === 'number' || schema.type === 'integer' ? Number(given[0]) : given[0];
            const wrong = given.length > 1 && schema.type !== 'array' ? 'is there twice' : this.contract.tested(schema, value);
            if (wrong) {
                return `query parameter "${name}": ${wrong}`;
            }
        }
        return undefined;
    }

    wrongBody(kind, body) {
        if (!body.length) {
            return this.isNeeded ? 'has no body' : undefined;
        }
        if (!this.bodies) {
            return 'has a body';
        }
        const type = kind.split(';')[0].trim();
        if (!this.bodies[type]) {
            return `its body is "${type}", and not one of ${Object.keys(this.bodies).join(', ')}`;
        }
        return type === 'application/json' ? this.wrongJson(this.bodies[type], body) : undefined;
    }

    wrongJson(schema, text) {
        let value;
        try {
            value = JSON.parse(text);
        } catch {
            return 'its body is no JSON';
        }
        const wrong = this.contract.tested(schema, value);
        return wrong && `${wrong} in ${text}`;
    }

    /** Of an answer that is not listed only a success is wrong: in front of the service are others who refuse. */
    answer(code, body) {
        const found = this.responses[code] && this.contract.resolved(this.responses[code]).properties.content;
        if (!found) {
            return code < 300 ? `${this.title}: ${code} is not among its answers` : undefined;
        }
        const schema = this.contract.resolved(found).properties?.['application/json'];
        const wrong = schema ? this.contract.tested(schema, body) : body !== undefined && 'has a body';
        return wrong ? `${this.title}: answer ${code}: ${wrong}` : undefined;
    }
}

export class Contract {
    constructor(text, landmark, tester) {
        this.declared = declared(text);
        this.tester = tester;
        this.tests = new Map();
        this.operations = [];
        const paths = [...this.declared].find(([name, each]) => name.startsWith('paths') && each.properties[landmark])[1].properties;
        for (const path of Object.keys(paths).sort((one, other) => one.includes('{') - other.includes('{'))) { // one without parameters is meant first
            const pattern = new RegExp(`^${path.replace(/\{[^}]*\}/g, '[^/]+')}$`);
            for (const [method, made] of Object.entries(paths[path].properties)) {
                if (made.properties?.responses) {
                    this.operations.push({ method: method.toUpperCase(), pattern, made: new Operation(this, `${method.toUpperCase()} ${path}`, made) });
                }
            }
        }
    }

    operation(method, pathname) {
        return this.operations.find((each) => each.method === method && each.pattern.test(pathname))?.made;
    }

    /** What a name, or a member of something named, stands for; the outermost level only. */
    resolved(schema) {
        if (schema.name) {
            const found = this.declared.get(schema.name);
            if (!found) {
                throw new Error(`the types name ${schema.name}, which they do not have`);
            }
            return found;
        }
        return schema.from ? this.resolved(this.resolved(schema.from).properties[schema.member]) : schema;
    }

    /** The same on all levels; `isOpen`: it is one part of several of an object, and the others have members, too. */
    whole(schema, isOpen = false) {
        const { properties, items, anyOf, allOf, additionalProperties, ...rest } = this.resolved(schema);
        const extra = additionalProperties === false ? isOpen : additionalProperties && this.whole(additionalProperties);
        return {
            ...rest,
            ...(properties && { properties: Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, this.whole(each)])) }),
            ...(extra !== undefined && { additionalProperties: extra }),
            ...(items && { items: this.whole(items) }),
            ...(anyOf && { anyOf: anyOf.map((each) => this.whole(each, isOpen)) }),
            ...(allOf && { allOf: allOf.map((each) => this.whole(each, true)) }),
        };
    }

    tested(schema, value) {
        if (!this.tests.has(schema)) {
            this.tests.set(schema, this.tester(this.whole(schema)));
        }
        return this.tests.get(schema)(value);
    }
}
