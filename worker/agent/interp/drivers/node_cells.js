// Rewrites a cell so that it runs as a script whose names stay defined. worker/agent/interp/node.c
// passes this part to node.js.
//
// A plain script would nearly do, because its functions and `var`s become globals. But `let`,
// `const` and classes cannot be declared twice, `await` and `import` are errors, and import() would
// resolve files relative to the driver. So the cell is parsed (by acorn, which every node from 18
// on carries for its own REPL, and which knows the grammar of that node) and edited in place, on
// the same lines:
//
//   let a = 1            var a = 1                      const and class likewise
//   f(await g())         the value is an async function of it all, whose declarations become assignments
//   import x from 'y'    ({default: x} = await import('y'))
//   import('y')          a call of ours, with the workspace as the place to look from
//
// V8's own REPL mode (inspector) needs no editing, but does not support imports. A cell that acorn
// cannot parse goes to V8 unchanged: V8 may know more syntax, or has the better error message.

(function () {
    'use strict';

    const OPTIONS = {
        ecmaVersion: 'latest',
        sourceType: 'script',
        allowAwaitOutsideFunction: true,
        allowImportExportEverywhere: true,
        allowHashBang: true,
    };
    const FUNCTION = /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/;

    function children(node, visit) {
        for (const key of Object.keys(node)) {
            const value = node[key];
            if (Array.isArray(value)) {
                for (const item of value) if (item && typeof item.type === 'string') visit(item, node);
            } else if (value && typeof value.type === 'string') {
                visit(value, node);
            }
        }
    }

    function boundNames(pattern, names) {
        switch (pattern && pattern.type) {
            case 'Identifier': names.add(pattern.name); break;
            case 'ObjectPattern':
                for (const p of pattern.properties) boundNames(p.type === 'Property' ? p.value : p.argument, names);
                break;
            case 'ArrayPattern': for (const e of pattern.elements) boundNames(e, names); break;
            case 'AssignmentPattern': boundNames(pattern.left, names); break;
            case 'RestElement': boundNames(pattern.argument, names); break;
        }
    }

    class Cell {
        constructor(source, number, tree) {
            this.source = source;
            this.number = number;
            this.body = tree.body;
            this.edits = [];
            this.names = new Set(); // names that stay declared after the cell
            this.hoisted = []; // functions that an async cell assigns to globals at its start
            this.isAsync = false;
        }

        edit(start, end, text) {
            this.edits.push({ start, end, text, order: this.edits.length });
        }

        // True for a node of the cell itself, not of a function in it.
        own(node, parent) {
            if (FUNCTION.test(node.type) || node.type === 'StaticBlock') return;
            if (node.type === 'PropertyDefinition') return;
            if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) this.isAsync = true;
            if (/^(Import|Export).*(Declaration)$/.test(node.type)) this.isAsync = true;
            if (node.type === 'VariableDeclaration' && (node.kind === 'var' || parent === null)) {
                for (const d of node.declarations) boundNames(d.id, this.names);
            }
            children(node, (child) => this.own(child, node));
        }

        // import() and import.meta, wherever they are.
        imports(node) {
            if (node.type === 'ImportExpression') this.edit(node.start, node.start + 6, '__cloister_import');
            if (node.type === 'MetaProperty' && node.meta.name === 'import') this.edit(node.start, node.end, '__cloister_meta');
            children(node, (child) => this.imports(child));
        }

        // Declarations of a script.
        declareSync(node) {
            if (node.type === 'VariableDeclaration' && node.kind !== 'var') {
                this.edit(node.start, node.start + node.kind.length, 'var'.padEnd(node.kind.length));
                for (const d of node.declarations) if (!d.init) this.edit(d.end, d.end, '=void 0');
            } else if (node.type === 'ClassDeclaration') {
                this.names.add(node.id.name);
                this.edit(node.start, node.start, `var ${node.id.name}=`);
                this.edit(node.end, node.end, ';');
            } else if (node.type === 'FunctionDeclaration') {
                this.names.add(node.id.name);
            }
        }

        // Declarations in the async function around a cell.
        declareAsync(node) {
            if (node.type === 'VariableDeclaration') {
                this.edit(node.start, node.start + node.kind.length, 'void (');
                for (const d of node.declarations) if (!d.init && node.kind !== 'var') this.edit(d.end, d.end, '=void 0');
                const last = node.declarations[node.declarations.length - 1];
                this.edit(last.end, last.end, ')');
            } else if (node.type === 'ClassDeclaration') {
                this.names.add(node.id.name);
                this.edit(node.start, node.start, `${node.id.name}=`);
                this.edit(node.end, node.end, ';');
            } else if (node.type === 'FunctionDeclaration') {
                this.names.add(node.id.name);
                this.hoisted.push(node.id.name);
            } else if (node.type === 'ImportDeclaration') {
                this.importDeclaration(node);
            } else if (node.type.startsWith('Export')) {
                this.exportDeclaration(node);
            }
        }

        importDeclaration(node) {
            const wanted = [];
            let target = '';
            for (const s of node.specifiers) {
                this.names.add(s.local.name);
                if (s.type === 'ImportNamespaceSpecifier') {
                    target += `${s.local.name}=__m,`;
                    continue;
                }
                const name = s.type === 'ImportDefaultSpecifier' ? 'default' : (s.imported.name ?? s.imported.value);
                wanted.push(name);
                target += `${s.local.name}=__m[${JSON.stringify(name)}],`;
            }
            const attributes = (node.attributes ?? []).map((a) => `${JSON.stringify(a.key.name ?? a.key.value)}:${a.value.raw}`);
            const options = attributes.length ? `{with:{${attributes}}}` : 'void 0';
            const lines = '\n'.repeat(this.source.slice(node.start, node.end).split('\n').length - 1);
            this.edit(node.start, node.end, `{const __m=await __cloister_wait(${this.number},` +
                `__cloister_import(${node.source.raw},${options},${JSON.stringify(wanted)}));void(${target}0)}${lines}`);
        }

        // `export` is removed: no module can import a cell, and its declarations stay anyway.
        exportDeclaration(node) {
            const inner = node.declaration;
            if (!inner) {
                const from = node.source ? `await __cloister_import(${node.source.raw})` : '';
                this.edit(node.start, node.end, `${from};`);
            } else if (inner.id !== null && /Declaration$/.test(inner.type)) {
                this.edit(node.start, inner.start, '');
                if (inner.type === 'VariableDeclaration') for (const d of inner.declarations) boundNames(d.id, this.names);
                this.declareAsync(inner);
            } else {
                this.edit(node.start, inner.start, 'void ');
            }
        }

        // `var`s in blocks, and top-level awaits, which end with the run of the cell.
        inAsync(node, parent) {
            if (FUNCTION.test(node.type) || node.type === 'StaticBlock' || node.type === 'PropertyDefinition') return;
            if (node.type === 'AwaitExpression') {
                const list = node.argument.type === 'SequenceExpression'; // parentheses stay outside
                this.edit(node.argument.start, node.argument.start, `__cloister_wait(${this.number},${list ? '(' : ''}`);
                this.edit(node.argument.end, node.argument.end, list ? '))' : ')');
            } else if (node.type === 'ForOfStatement' && node.await) {
                this.edit(node.right.start, node.right.start, `__cloister_each(${this.number},`);
                this.edit(node.right.end, node.right.end, ')');
            } else if (node.type === 'VariableDeclaration' && node.kind === 'var' && parent !== null && !/^Export/.test(parent.type)) {
                const isHead = /^For/.test(parent.type) && parent.body !== node;
                if (isHead) this.edit(node.start, node.start + 3, '');
                else this.declareAsync(node);
            }
            children(node, (child) => this.inAsync(child, node));
        }

        text() {
            // of two edits at one position, the earlier comes first
            this.edits.sort((a, b) => a.start - b.start || a.end - b.end || a.order - b.order);
            let out = '';
            let at = 0;
            for (const e of this.edits) {
                if (e.start < at) continue; // inside a range that is replaced as a whole
                out += this.source.slice(at, e.start) + e.text;
                at = e.end;
            }
            return out + this.source.slice(at);
        }
    }

    // Returns {text, shift, names, isAsync, hasValue}: the script, the shift of its first line in
    // columns, its names, and whether it is async and has a value. The value of an async script is
    // a function that runs it.
    function rewrite(acorn, source, number) {
        let tree;
        let shift = 0;
        if (/^\s*\{/.test(source) && !/;\s*$/.test(source)) {
            try {
                // try it as an object before a block
                tree = acorn.parse(`(${source}\n)`, OPTIONS);
                source = `(${source}\n)`;
                shift = 1;
            } catch {
                // a block
            }
        }
        tree ??= acorn.parse(source, OPTIONS);
        const cell = new Cell(source, number, tree);
        const last = cell.body.filter((node) => node.type !== 'EmptyStatement').pop();
        const hasValue = last !== undefined && last.type === 'ExpressionStatement';
        for (const node of cell.body) {
            cell.own(node, null);
            cell.imports(node);
        }
        if (!cell.isAsync) {
            for (const node of cell.body) cell.declareSync(node);
            return { text: cell.text(), shift, names: cell.names, isAsync: false, hasValue };
        }
        if (hasValue) cell.edit(last.start, last.start, 'return{__proto__:null,value:(');
        for (const node of cell.body) {
            cell.inAsync(node, null);
            cell.declareAsync(node);
        }
        if (hasValue) {
            const end = source[last.end - 1] === ';' ? last.end - 1 : last.end;
            cell.edit(end, end, ')}');
        }
        const first = cell.body[0];
        const directive = first !== undefined && first.directive ? `${first.expression.raw};` : '';
        const names = [...cell.names];
        const head = (names.length ? `var ${names};` : '') + `(async()=>{${directive}` +
            cell.hoisted.map((name) => `__cloister_global.${name}=${name};`).join('');
        // on a new line, because the cell may end with a comment
        return { text: `${head}${cell.text()}\n})`, shift: shift + head.length, names: cell.names, isAsync: true, hasValue };
    }

    return rewrite;
})()
