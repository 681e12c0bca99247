"""Checks values against JSON Schema, with the keywords that MCP's own schemas and our tools' schemas use.

An unknown keyword is an error, so that nothing passes unchecked.
"""

import json
import os
import re
import reprlib

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMAS = os.path.join(os.path.dirname(HERE), "schema")

_short = reprlib.Repr()  # limits the text for a large value
_short.maxstring = _short.maxother = 100
brief = _short.repr

IGNORED = {"$schema", "$id", "$defs", "definitions", "title", "description", "default", "examples", "format"}

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool))
    or (isinstance(v, float) and v.is_integer()),
}


# The published schema of the latest revision excludes fractions and null from JSON values, which its source
# does not.
ANYTHING = ("JSONValue",)


class Checker:
    def __init__(self, root):
        self.root = root
        self.resolved = {}

    def problems(self, value, schema, where="$"):
        """Every reason why the value does not fit, as text."""
        if schema is True or schema == {}:
            return []
        if schema is False:
            return [f"{where}: nothing is allowed here"]
        found = []
        for keyword, argument in schema.items():
            if keyword in IGNORED:
                continue
            check = getattr(self, "_" + keyword.strip("$"), None)
            if check is None:
                raise AssertionError(f"schema keyword {keyword} is not known to this checker")
            found += check(value, argument, schema, where)
        return found

    def resolve(self, reference):
        if reference not in self.resolved:
            if not reference.startswith("#/"):
                raise AssertionError(f"cannot follow {reference}")
            target = self.root
            for part in reference[2:].split("/"):
                target = target[part]
            self.resolved[reference] = True if part in ANYTHING else target
        return self.resolved[reference]

    def _ref(self, value, reference, schema, where):
        return self.problems(value, self.resolve(reference), where)

    def _type(self, value, wanted, schema, where):
        names = wanted if isinstance(wanted, list) else [wanted]
        if any(TYPES[name](value) for name in names):
            return []
        return [f"{where}: {brief(value)} is not of type {'/'.join(names)}"]

    def _properties(self, value, properties, schema, where):
        if not isinstance(value, dict):
            return []
        found = []
        for name, part in properties.items():
            if name in value:
                found += self.problems(value[name], part, f"{where}.{name}")
        return found

    def _required(self, value, names, schema, where):
        if not isinstance(value, dict):
            return []
        return [f"{where}: {name} is missing" for name in names if name not in value]

    def _additionalProperties(self, value, part, schema, where):
        if not isinstance(value, dict):
            return []
        found = []
        for name in value:
            if name not in schema.get("properties", {}):
                found += self.problems(value[name], part, f"{where}.{name}")
        return found

    def _propertyNames(self, value, part, schema, where):
        if not isinstance(value, dict):
            return []
        return [p for name in value for p in self.problems(name, part, f"{where} key {name}")]

    def _items(self, value, part, schema, where):
        if not isinstance(value, list):
            return []
        return [p for i, v in enumerate(value) for p in self.problems(v, part, f"{where}[{i}]")]

    def _enum(self, value, choices, schema, where):
        return [] if value in choices else [f"{where}: {brief(value)} is none of {choices}"]

    def _const(self, value, wanted, schema, where):
        return [] if value == wanted else [f"{where}: {brief(value)} is not {wanted!r}"]

    def _anyOf(self, value, parts, schema, where):
        tries = [self.problems(value, part, where) for part in parts]
        if any(not t for t in tries):
            return []
        return [f"{where}: fits none of {len(parts)} forms: {min(tries, key=len)}"]

    def _oneOf(self, value, parts, schema, where):
        fitting = sum(not self.problems(value, part, where) for part in parts)
        return [] if fitting == 1 else [f"{where}: fits {fitting} forms instead of one"]

    def _allOf(self, value, parts, schema, where):
        return [p for part in parts for p in self.problems(value, part, where)]

    def _not(self, value, part, schema, where):
        return [] if self.problems(value, part, where) else [f"{where}: is what it must not be"]

    def _minimum(self, value, bound, schema, where):
        number = TYPES["number"](value)
        return [f"{where}: {value} is below {bound}"] if number and value < bound else []

    def _maximum(self, value, bound, schema, where):
        number = TYPES["number"](value)
        return [f"{where}: {value} is above {bound}"] if number and value > bound else []

    def _exclusiveMinimum(self, value, bound, schema, where):
        number = TYPES["number"](value)
        return [f"{where}: {value} is not above {bound}"] if number and value <= bound else []

    def _minLength(self, value, bound, schema, where):
        short = isinstance(value, str) and len(value) < bound
        return [f"{where}: shorter than {bound}"] if short else []

    def _maxLength(self, value, bound, schema, where):
        long = isinstance(value, str) and len(value) > bound
        return [f"{where}: longer than {bound}"] if long else []

    def _minItems(self, value, bound, schema, where):
        short = isinstance(value, list) and len(value) < bound
        return [f"{where}: fewer than {bound} items"] if short else []

    def _maxItems(self, value, bound, schema, where):
        long = isinstance(value, list) and len(value) > bound
        return [f"{where}: more than {bound} items"] if long else []

    def _maxProperties(self, value, bound, schema, where):
        many = isinstance(value, dict) and len(value) > bound
        return [f"{where}: more than {bound} members"] if many else []

    def _pattern(self, value, pattern, schema, where):
        bad = isinstance(value, str) and not re.search(pattern, value)
        return [f"{where}: {brief(value)} does not match {pattern}"] if bad else []


_loaded = {}


def revision(version):
    """The published schema of one revision."""
    if version not in _loaded:
        with open(os.path.join(SCHEMAS, f"{version}.json"), encoding="utf-8") as file:
            _loaded[version] = Checker(json.load(file))
    return _loaded[version]


def check(version, name, value):
    """Fails unless the value is a valid `name` ("CallToolResult") of that revision."""
    checker = revision(version)
    tables = checker.root.get("$defs") or checker.root.get("definitions")
    found = checker.problems(value, tables[name])
    if found:
        raise AssertionError(f"{name} of {version}: " + "; ".join(found[:8]))


def check_value(schema, value, what):
    """Fails unless the value fits a schema that a tool declared."""
    found = Checker(schema).problems(value, schema)
    if found:
        raise AssertionError(f"{what}: " + "; ".join(found[:8]))
