"""usage: schema_random.py PROGRAM [SCHEMAS [SEED]]
Random JSON schemas: the texts that are drawn from one are JSON that is valid under it, and one that is not supported is
refused by the place and name of a keyword."""
import json
import random
import re
import subprocess
import sys

DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
FORMATS = {"date": DATE, "date-time": DATE + "T.*", "uuid": "[0-9a-f-]{36}", "email": ".+@.+", "ipv4": r"[0-9.]{7,15}",
           "hostname": ".{1,253}", "duration": "P.+", "ipv6": "[0-9a-f:]+", "uri": "(https?|ftp)://.+", "time": ".+[Z0-9]"}


def is_type(value, name):
    if name == "integer":
        return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    if name == "number":
        return not isinstance(value, bool) and isinstance(value, (int, float))
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(value, kinds[name])


def equal(a, b):
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return a == b


def numbers_hold(schema, value):
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is True and value <= low or below is True and value >= high:
        return False
    return not (low is not None and value < low or high is not None and value > high
                or not isinstance(above, (bool, type(None))) and value <= above
                or not isinstance(below, (bool, type(None))) and value >= below)


def texts_hold(schema, value):
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 30):
        return False
    if "pattern" in schema and re.search(schema["pattern"].replace("$", r"\Z"), value) is None:
        return False
    return "format" not in schema or re.fullmatch(FORMATS[schema["format"]], value) is not None


def lists_hold(schema, value, root):
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 30):
        return False
    items, first = schema.get("items", True), schema.get("prefixItems", [])
    if isinstance(items, list):
        first, items = items, schema.get("additionalItems", True)
    return (all(holds(one, item, root) for one, item in zip(first, value))
            and all(holds(items, item, root) for item in value[len(first):]))


def objects_hold(schema, value, root):
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", 1 << 30):
        return False
    if any(name not in value for name in schema.get("required", [])):
        return False
    for name, one in value.items():
        known = schema.get("properties", {})
        patterns = [part for key, part in schema.get("patternProperties", {}).items() if re.search(key, name)]
        if name in known and not holds(known[name], one, root):
            return False
        if not all(holds(part, one, root) for part in patterns):
            return False
        if name not in known and not patterns and not holds(schema.get("additionalProperties", True), one, root):
            return False
        if not holds(schema.get("propertyNames", True), name, root):
            return False
    return True


def holds(schema, value, root):
    """Whether a value is valid, by what the drafts say."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        place = root
        for part in schema["$ref"].lstrip("#").split("/")[1:]:
            place = place[part]
        if not holds(place, value, root):
            return False
    types = schema.get("type", [])
    if types and not any(is_type(value, name) for name in ([types] if isinstance(types, str) else types)):
        return False
    if "enum" in schema and not any(equal(value, one) for one in schema["enum"]):
        return False
    if "const" in schema and not equal(value, schema["const"]):
        return False
    if not all(holds(one, value, root) for one in schema.get("allOf", [])):
        return False
    if "anyOf" in schema and not any(holds(one, value, root) for one in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(holds(one, value, root) for one in schema["oneOf"]) != 1:
        return False
    if isinstance(value, dict):
        return objects_hold(schema, value, root)
    if isinstance(value, list):
        return lists_hold(schema, value, root)
    if isinstance(value, str):
        return texts_hold(schema, value)
    return isinstance(value, (bool, type(None))) or numbers_hold(schema, value)


class Schemas:
    NAMES = ["a", "b", "c", "kind", "größe", "x/y", 'q"', "tab\t"]
    VALUES = [0, 1, -3, 2.5, "a", "b", "é\n", True, False, None, [], [1, "a"], {}, {"a": 1}]
    BOUNDS = [0, 1, -1, 5, 17, 100, -250, 0.5, 3.25, -0.75, 9007199254740991]
    UNKNOWN = [("not", {}), ("multipleOf", 3), ("uniqueItems", True), ("contains", {}), ("if", {}), ("dependentRequired", {}),
               ("unevaluatedProperties", False), ("$dynamicRef", "#x"), ("maxContains", 1), ("dependencies", {})]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self):
        r = self.random
        schema = {"type": r.choice(["integer", "number", ["integer", "null"]])}
        for low in ("minimum", "exclusiveMinimum"):
            if r.random() < 0.4:
                schema[low] = r.choice(self.BOUNDS)
        for high in ("maximum", "exclusiveMaximum"):
            if r.random() < 0.4:
                schema[high] = r.choice(self.BOUNDS)
        if "minimum" in schema and r.random() < 0.1:
            schema["exclusiveMinimum"] = r.random() < 0.5
        return schema

    def text(self):
        r = self.random
        kind = r.random()
        if kind < 0.3:
            return {"type": "string", "format": r.choice(list(FORMATS))}
        if kind < 0.6:
            return {"type": "string", "pattern": r.choice(["^a+$", "b", "^(a|b)", "(^x|^y)z", "(a|b)$", "^[^a]{2}$", "\\\\d\\n",
                                                           '^"[a-c]*"$', "^[0-9]{2}$", "^é|ü$"])}
        low = r.choice([0, 0, 1, 3])
        return {"type": "string", "minLength": low, "maxLength": low + r.choice([0, 1, 5])}

    def array(self, depth):
        r = self.random
        kind = r.random()
        if kind < 0.2:
            return {"type": "array", "prefixItems": [self.any(depth) for _ in range(2)], "items": r.choice([False, False, {}])}
        if kind < 0.3:
            return {"type": "array", "items": [self.any(depth)], "additionalItems": False}
        schema = {"type": "array", "items": self.any(depth)}
        if r.random() < 0.5:
            schema["minItems"] = r.choice([0, 1, 2])
        if r.random() < 0.5:
            schema["maxItems"] = r.choice([0, 2, 3])
        return schema

    def object(self, depth):
        r = self.random
        schema = {"type": "object"}
        names = r.sample(self.NAMES, r.choice([0, 1, 2, 3]))
        if names:
            schema["properties"] = {name: self.any(depth) for name in names}
        if r.random() < 0.6:
            schema["required"] = [name for name in names if r.random() < 0.5] + (["more"] if r.random() < 0.1 else [])
        kind = r.random()
        if kind < 0.5:
            schema["additionalProperties"] = r.choice([True, False, False, self.any(depth)])
        elif kind < 0.6 and not names:
            schema["patternProperties"] = {r.choice(["^x", "y$", "^[a-c]{2}$"]): self.any(depth)}
        elif kind < 0.7 and not names:
            schema["propertyNames"] = self.text()
        if r.random() < 0.2:
            schema[r.choice(["minProperties", "maxProperties"])] = r.choice([0, 1, 3])
        return schema

    def several(self, depth):
        r = self.random
        name = r.choice(["anyOf", "oneOf", "allOf"])
        if name == "oneOf" and r.random() < 0.5:
            return {"oneOf": [{"type": "object", "properties": {"kind": {"const": i}, "a": self.any(depth)},
                               "required": ["kind"]} for i in range(2)]}
        if name == "allOf":
            return {"allOf": [self.object(depth), self.object(depth)]}
        schema = {name: [self.any(depth) for _ in range(r.choice([1, 2, 3]))]}
        if r.random() < 0.3:
            schema.update(self.object(0))
        return schema

    def any(self, depth):
        r = self.random
        kind = r.random()
        if r.random() < 0.02:
            name, value = r.choice(self.UNKNOWN)
            return {name: value}
        if depth == 0 or kind < 0.35:
            return r.choice([self.number, self.text, lambda: {"type": r.choice(["boolean", "null"])},
                             lambda: {"enum": r.sample(self.VALUES, 3)}, lambda: {"const": r.choice(self.VALUES)},
                             lambda: {"type": r.choice(["string", "integer"]), "enum": r.sample(self.VALUES, 5)},
                             lambda: r.choice([True, False, {}])])()
        if kind < 0.5:
            return {"$ref": "#/$defs/" + r.choice("mn"), "title": "x"}
        return r.choice([self.array, self.object, self.object, self.several])(depth - 1)

    def next(self):
        schema = self.any(3)
        if isinstance(schema, bool):
            return self.next()
        schema["$defs"] = {"m": self.any(1), "n": self.any(2)}
        return schema


EXPECTED = re.compile(r"schema: (at #|no text matches|the pattern is too large)|key: (no text matches|the pattern is too large)")


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1500
    schemas = Schemas(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    lines = [{"schema": schemas.next(), "texts": [], "samples": 8} for _ in range(count)]
    done = subprocess.run([program], input="\n".join(map(json.dumps, lines)) + "\n", text=True, check=True,
                          stdout=subprocess.PIPE, encoding="utf-8")
    bad = compared = refused = 0
    for line, answer in zip(lines, map(json.loads, done.stdout.split("\n")[:-1]), strict=True):
        schema = line["schema"]
        if "refused" in answer:
            refused += 1
            if not EXPECTED.match(answer["refused"]):
                bad += 1
                print(f"{json.dumps(schema)}: refused: {answer['refused']}")
            continue
        for text in answer["samples"]:
            compared += 1
            try:
                if holds(schema, json.loads(text), schema):
                    continue
                why = "is not valid"
            except ValueError as error:
                why = f"is not JSON: {error}"
            except RecursionError:  # a schema that says no more than that it holds itself
                continue
            bad += 1
            print(f"{json.dumps(schema)}: {text!r} {why}")
    print(f"{count} schemas, {refused} refused, {compared} texts, {bad} differences")
    return 1 if bad or compared < 2 * count else 0


if __name__ == "__main__":
    sys.exit(main())
