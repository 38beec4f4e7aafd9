#!/usr/bin/env python3
"""Derives what bindings share from include/trl/trl.h and serve.h: generate.py [--check]

Writes api.json, and the parts of bindings that follow from it. --check writes nothing and fails if a file is not what it would
write. README.md says what api.json holds."""

import difflib
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = os.path.join(HERE, "../include/trl")
SYMBOLS = os.path.join(HERE, "../tests/abi/symbols.txt")
THREADS = ("any thread", "concurrent on const", "exclusive", "signal-safe")
TOKENS = re.compile(
    r"/\* ---- (?P<section>.+?) -+ \*/|/\*(?P<comment>.*?)\*/|^#define (?P<macro>TRL_VERSION_\w+) (?P<number>\d+)"
    r"|typedef struct (?P<handle>\w+) \w+;|^struct (?P<foreign>\w+);|typedef (?P<integer>u?int\d+_t) (?P<alias>\w+);"
    r"|typedef (?P<result>[^;(]+)\(\*(?P<callback>\w+)\)\((?P<cparams>[^)]*)\);|enum \{(?P<enum>[^}]*)\};"
    r"|TRL_API (?P<returns>[^;(]*?)(?P<function>\w+)\((?P<params>[^)]*)\) TRL_NOEXCEPT;",
    re.S | re.M,
)


def words(text):
    """The words of a comment without its stars, as one line."""
    return " ".join(re.sub(r"^ *\* ?", "", text, flags=re.M).split())


def type_of(text):
    """A type: its C spelling, the name without const and *, how many * there are, and whether what the innermost of
    them points to is const."""
    spelling = " ".join(text.replace("*", " * ").split())
    base = re.sub(r"\b(const|struct)\b|\*", "", spelling).strip()
    return {"c": spelling.replace(" * ", " *").replace("* *", "**"), "type": base, "pointers": spelling.count("*"),
            "const": spelling.startswith("const ")}


def parameter(text):
    match = re.fullmatch(r"(?s)(.*?)(\w+)", text.strip())
    return {"name": match[2], **type_of(match[1])}


def parameters(text):
    return [] if text.strip() in ("", "void") else [parameter(part) for part in text.split(",")]


def describe(function, comment):
    """Adds what the fixed shape of a function's comment says: summary, @param, Contract."""
    tags = re.split(r"(?m)^ \* ?(?=@)|(?=Contract: )", comment)
    function["summary"] = words(re.split(r"\n \*\n", tags[0].lstrip("*"))[0])
    for tag in map(words, tags[1:]):
        if match := re.match(r"@param (\w+) \[(in|out)\] ?(.*)", tag):
            item = next(p for p in function["params"] if p["name"] == match[1])
            item["direction"] = match[2]
            item["nullable"] = match[3].startswith("nullable")
        elif tag.startswith("Contract: "):
            function["contract"] = tag[len("Contract: "):]
            parts = re.split("[;,.] ", function["contract"])
            function["threads"] = next(word for part in parts for word in THREADS if part.startswith(word))
        elif tag.startswith("@since "):
            function["since"] = function["since"] or tag.split()[1]
    return function


def constants(body, before):
    """The members of an enum. Their group is what their names share, or the type that was defined just before."""
    found = [{"name": n, "value": int(v), "doc": words(d)} for n, v, d in
             re.findall(r"(\w+) = (-?\d+),?[ \t]*(?:/\*(.*?)\*/)?", body, re.S)]
    shared = os.path.commonprefix([c["name"] for c in found]).rpartition("_")[0]
    group = shared[4:].lower() or before[4:]
    return [{"name": c["name"], "group": group, "type": "int32_t", "value": c["value"], "doc": c["doc"]} for c in found]


def read_symbols():
    """The versions of each function of trl.h: since, and deprecated in."""
    with open(SYMBOLS, encoding="utf-8") as file:
        return {parts[0]: parts[1:] for parts in map(str.split, file) if parts[0] != "#"}


def read_header(name, versions):
    """What a header declares. versions: of its functions; those of others are in their comments."""
    with open(os.path.join(HEADERS, name), encoding="utf-8") as file:
        header = file.read()
    api = {"constants": [], "integers": {}, "handles": [], "foreign": [], "callbacks": [], "functions": []}
    section, comment, alias = "", "", ""
    for found in TOKENS.finditer(header):
        if found["section"]:
            section = found["section"]
        elif found["comment"] is not None:
            comment = found["comment"]
            continue
        elif found["macro"]:
            api["constants"].append({"name": found["macro"], "group": "version", "type": "int32_t",
                                     "value": int(found["number"]), "doc": ""})
        elif found["handle"]:
            api["handles"].append(found["handle"])
        elif found["foreign"]:
            api["foreign"].append(found["foreign"])
        elif found["alias"]:
            alias = found["alias"]
            api["integers"][alias] = found["integer"]
        elif found["enum"]:
            api["constants"] += constants(found["enum"], alias)
        elif found["callback"]:
            api["callbacks"].append({"name": found["callback"], "section": section, "doc": words(comment),
                                     "returns": type_of(found["result"]), "params": parameters(found["cparams"])})
        elif found["function"]:
            since, deprecated = versions.get(found["function"], (None, "-"))
            function = {"name": found["function"], "section": section, "since": since,
                        "deprecated": None if deprecated == "-" else deprecated,
                        "returns": type_of(found["returns"]), "params": parameters(found["params"])}
            api["functions"].append(describe(function, comment))
        comment = ""
    functions = {function["name"] for function in api["functions"]}
    api["handles"] = [{"name": name, "destroy": name + "_destroy" if name + "_destroy" in functions else None}
                      for name in api["handles"]]
    return api


def read_api():
    """What trl.h declares, and as "serve" the handles and functions of serve.h, which are in a library of their own."""
    versions = read_symbols()
    api = read_header("trl.h", versions)
    functions = {function["name"] for function in api["functions"]}
    if functions != set(versions):
        raise SystemExit(f"the header and symbols.txt differ in {sorted(functions ^ set(versions))}")
    serve = read_header("serve.h", {})
    api["serve"] = {"handles": serve.pop("handles"), "functions": serve.pop("functions")}
    if more := [kind for kind, found in serve.items() if found]:
        raise SystemExit(f"serve.h declares {' and '.join(more)}: bindings take those of trl.h alone")
    return api


def as_json(api):
    """One line for each thing, so that a change of the header is a change of a line."""
    def lines(items):
        return ",\n".join("    " + json.dumps(item, ensure_ascii=False) for item in items)

    def part(value):
        return f"[\n{lines(value)}\n  ]" if isinstance(value, list) else json.dumps(value)

    serve = ",\n".join(f'  "{key}": {part(value)}' for key, value in api["serve"].items())
    parts = [f'  "{key}": {part(value)}' for key, value in api.items() if key != "serve"]
    return "{\n" + ",\n".join([*parts, f'  "serve": {{\n{serve}\n  }}']) + "\n}\n"


# ---- Python ----------------------------------------------------------------------------------------------------------

ENUMS = {"status": "Status", "type": "OptionType", "log": "LogLevel", "progress": "Progress", "text": "TextForm",
         "on": "EventKind", "event": "Answer", "write": "WriteKind", "tensor": "TensorForm"}
PLAIN = {"void": "None", "size_t": "size_t", "float": "float", "double": "double", "char": "char"}


def type_names(api):
    """A function that names the type of a result or parameter as the tables of Python and Node have it."""
    callbacks = {callback["name"] for callback in api["callbacks"]}
    objects = {handle["name"] for handle in api["handles"] + api["serve"]["handles"]} | set(api["foreign"])

    def plain(name):
        name = api["integers"].get(name, name)
        return PLAIN.get(name) or name[:-2]  # int32_t: int32

    def type_name(item):
        base, pointers = item["type"], item["pointers"]
        if base in callbacks:
            return base
        if base in objects or base == "void" and pointers:
            return "pointer" if pointers == 1 else "pointer*"
        if not pointers:
            return plain(base)
        if base == "char" and item["const"]:
            return "text" + "*" * (pointers - 1)
        return plain(base) + "*"

    return type_name


def as_python(api):
    type_name = type_names(api)

    def row(items):
        types = ", ".join(f'"{type_name(item)}"' for item in items)
        return f"({types}{',' if len(items) == 1 else ''})"

    groups = {}
    for constant in api["constants"]:
        groups.setdefault(constant["group"], []).append(constant)
    version = ", ".join(str(constant["value"]) for constant in groups.pop("version"))
    out = ['"""The C ABI, made from include/trl by bindings/generate.py."""', "", "import enum", "",
           f"VERSION = ({version})"]
    for group, found in groups.items():
        out += ["", "", f"class {ENUMS[group]}(enum.{'IntFlag' if group == 'event' else 'IntEnum'}):"]
        prefix = "TRL_" if group == "status" else f"TRL_{group.upper()}_"
        for c in found:
            note = f"  # {c['doc']}" if c["doc"] else ""
            out.append(f"    {c['name'][len(prefix):]} = {c['value']}{note}")
    out += ["", "", "# name: result and parameters, as _library.py names types", "CALLBACKS: dict[str, tuple[str, ...]] = {"]
    out += [f'    "{c["name"]}": {row([c["returns"], *c["params"]])},'
            for c in api["callbacks"]]
    out += ["}", "", "FUNCTIONS: dict[str, tuple[str, ...]] = {"]
    out += [f'    "{f["name"]}": {row([f["returns"], *f["params"]])},' for f in api["functions"]]
    out += ["}", "", "SERVE_FUNCTIONS: dict[str, tuple[str, ...]] = {"]
    out += [f'    "{f["name"]}": {row([f["returns"], *f["params"]])},' for f in api["serve"]["functions"]]
    return "\n".join([*out, "}", ""])


# ---- C++ -------------------------------------------------------------------------------------------------------------


def as_cpp(api):
    out = ["// The constants of trl/trl.h, all of one type; made from it by bindings/generate.py.", "#ifndef TRL_CPP_CONSTANTS_HPP",
           "#define TRL_CPP_CONSTANTS_HPP", "", "#include <cstdint>", "", '#include "../trl.h"', "", "namespace trl {", ""]
    for group, name in ENUMS.items():
        out.append(f"namespace {name} {{")
        prefix = "TRL_(E_)?" if group == "status" else f"TRL_{group.upper()}_"
        out += [f"constexpr std::int32_t {re.sub(prefix, '', c['name']).lower()} = {c['name']};"
                for c in api["constants"] if c["group"] == group]
        out += [f"}}  // namespace {name}", ""]
    return "\n".join([*out, "}  // namespace trl", "", "#endif  // TRL_CPP_CONSTANTS_HPP", ""])
# ---- Go --------------------------------------------------------------------------------------------------------------


def as_go(api):
    """The constants: a type for each enum, all of them int32."""
    def name_of(constant):
        return "".join(part if part in ("OK", "IO") else part.capitalize() for part in constant["name"].split("_")[1:])

    out = ["// Made from include/trl/trl.h by bindings/generate.py. DO NOT EDIT.", "", "package trl"]
    groups = {}
    for constant in api["constants"]:
        groups.setdefault(constant["group"], []).append(constant)
    for group, found in groups.items():
        kind = ENUMS.get(group, "int32")
        if group in ENUMS:
            out += ["", f"// {kind} is one of the constants {found[0]['name'].rpartition('_')[0]}_*, or one that a later version adds.",
                    f"type {kind} int32"]
        for c in found:
            out += ["", f"// {name_of(c)} is {c['name']}{': ' + c['doc'] if c['doc'] else ''}.",
                    f"const {name_of(c)} {kind} = {c['value']}"]
    return "\n".join([*out, ""])


def as_go_serve(api):
    """The functions of serve.h as wrappers of pointers, which cgo cannot call, in a table that serve.c fills."""
    functions = api["serve"]["functions"]

    def declared(function, name):
        params = ", ".join(f"{p['c']} {p['name']}".replace("* ", "*") for p in function["params"])
        return f"{function['returns']['c']} {name}({params})"

    out = ["// The functions of trl/serve.h, whose library is opened by trlgo_serve_open; made by bindings/generate.py.",
           "// clang-format off", "#ifndef TRL_GO_SERVE_ABI_H", "#define TRL_GO_SERVE_ABI_H", "", "#include <trl/trl.h>", "",
           "// Opens the library once, and returns why it cannot be, or NULL.", "const char* trlgo_serve_open(void);", ""]
    out += [f"typedef struct {handle['name']} {handle['name']};" for handle in api["serve"]["handles"]]
    out += ["", "struct trlgo_serve {", *(f"  {declared(f, '(*' + f['name'] + ')')};" for f in functions), "};",
            "extern struct trlgo_serve trlgo_serve;", "", "#define TRLGO_SERVE_FUNCTIONS(F) \\",
            " \\\n".join(f"  F({f['name']})" for f in functions)]
    for f in functions:
        call = f"trlgo_serve.{f['name']}({', '.join(p['name'] for p in f['params'])});"
        result = "" if f["returns"]["c"] == "void" else "return "
        out += ["", f"static inline {declared(f, f['name'])} {{", f"  {result}{call}", "}"]
    return "\n".join([*out, "", "#endif", ""])


# ---- Rust ------------------------------------------------------------------------------------------------------------

RUST_TYPES = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "uint8_t": "u8", "size_t": "usize", "float": "f32",
              "double": "f64", "char": "c_char", "void": "c_void"}
NEWTYPES = {"status": ("Status", "The result of a call."), "type": ("OptionType", "The type of an option's value."),
            "log": ("LogLevel", "The level of a log line."),
            "text": ("TextForm", "How a reward model takes its texts."), "on": ("EventKind", "The kind of an event."),
            "event": ("Answer", "The answer of an event function; several may be combined by `|`."),
            "write": ("WriteKind", "What a function that takes saved files is told."),
            "tensor": ("TensorForm", "What is read of a tensor.")}


def rust_doc(indent, *texts):
    return [f"{indent}/// {text}".replace("<", r"\<").replace("[", r"\[") if text else f"{indent}///" for text in texts]


def rust_type(item):
    """A type of C, from the inside to the outside: each * points to what is const or not."""
    tokens = re.findall(r"\*|\w+", item["c"].replace("struct ", ""))
    name = next(token for token in tokens if token not in ("*", "const"))
    out, const = RUST_TYPES.get(name, name), tokens[0] == "const"
    for index, token in enumerate(tokens):
        if token == "*":
            out = ("*const " if const else "*mut ") + out
            const = tokens[index + 1:index + 2] == ["const"]
    return out


def rust_signature(item):
    params = ", ".join(f"{p['name']}: {rust_type(p)}" for p in item["params"])
    returns = rust_type(item["returns"])
    return f"({params})" + ("" if returns == "c_void" else f" -> {returns}")


def rust_opaque(names):
    out = []
    for name in names:
        out += ["", "#[repr(C)]", f"pub struct {name} {{", "    _opaque: [u8; 0],",
                "    _marker: PhantomData<(*mut u8, PhantomPinned)>,", "}"]
    return out


def rust_functions(functions):
    out = ['extern "C" {']
    for function in functions:
        out += [*rust_doc("    ", function["summary"], "", f"Contract: {function['contract']}"),
                f"    pub fn {function['name']}{rust_signature(function)};", ""]
    return [*out[:-1], "}"]


def as_rust(api):
    out = ["//! The C ABI, made from include/trl/trl.h by bindings/generate.py.", "", "use std::marker::{PhantomData, PhantomPinned};",
           "use std::os::raw::{c_char, c_void};", ""]
    for constant in api["constants"]:
        out += rust_doc("", *filter(None, [constant["doc"]]))
        out.append(f"pub const {constant['name']}: i32 = {constant['value']};")
    out += ["", *(f"pub type {name} = {RUST_TYPES[of]};" for name, of in api["integers"].items())]
    out += rust_opaque([*(handle["name"] for handle in api["handles"]), *api["foreign"]])
    for callback in api["callbacks"]:
        out += ["", *rust_doc("", *filter(None, [callback["doc"]])),
                f"pub type {callback['name']} = Option<unsafe extern \"C\" fn{rust_signature(callback)}>;"]
    return "\n".join([*out, "", *rust_functions(api["functions"]), ""])


def as_rust_serve(api):
    out = ["//! The C ABI of libtrl_serve.so, made from include/trl/serve.h by bindings/generate.py.", "", "use crate::abi::*;",
           "use std::marker::{PhantomData, PhantomPinned};", "use std::os::raw::c_char;"]
    out += rust_opaque([handle["name"] for handle in api["serve"]["handles"]])
    return "\n".join([*out, "", *rust_functions(api["serve"]["functions"]), ""])


def as_rust_constants(api):
    out = ["//! The constants of trl.h as types, made by bindings/generate.py.", "", "use trl_sys as sys;"]
    for group, (name, doc) in NEWTYPES.items():
        prefix = "TRL_" if group == "status" else f"TRL_{group.upper()}_"
        found = [(constant, constant["name"][len(prefix):]) for constant in api["constants"] if constant["group"] == group]
        out += ["", f"/// {doc} Numbers that a later version adds are taken, too.",
                "#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]", f"pub struct {name}(pub i32);", "",
                f"impl {name} {{"]
        for constant, short in found:
            out += rust_doc("    ", *filter(None, [constant["doc"]]))
            out.append(f"    pub const {short}: {name} = {name}(sys::{constant['name']});")
        out += ["", "    /// The name of a number that this version knows.", "    pub fn name(self) -> Option<&'static str> {",
                "        match self {", *(f'            {name}::{short} => Some("{short}"),' for _, short in found),
                "            _ => None,", "        }", "    }", "}", "", f"named!({name});"]
    return "\n".join([*out, ""])
# ---- Node ------------------------------------------------------------------------------------------------------------


def as_node(api):
    """The constants and the tables of callbacks and functions, and the TypeScript declarations of the constants."""
    type_name = type_names(api)
    owned = {handle["name"] for handle in api["handles"] + api["serve"]["handles"] if handle["destroy"]}

    def declared(item, following):
        """A parameter as type and name: an object that the host owns has its own type, and a text with a size is bytes."""
        name = type_name(item)
        if name == "pointer" and item["type"] in owned:
            name = item["type"]
        elif name == "text" and following and type_name(following) == "size_t":
            name = "bytes"
        return f"{name} {item['name']}"

    groups = {}
    for constant in api["constants"]:
        groups.setdefault(constant["group"], []).append(constant)
    version = ", ".join(str(constant["value"]) for constant in groups.pop("version"))
    title = "// The {} of the C ABI, made from include/trl by bindings/generate.py."
    code = [title.format("tables"), "", f"export const VERSION = [{version}];"]
    types = [title.format("constants")]
    for group, found in groups.items():
        prefix = "TRL_" if group == "status" else f"TRL_{group.upper()}_"
        code += ["", f"export const {ENUMS[group]} = Object.freeze({{"]
        types += ["", f"export const {ENUMS[group]}: {{"]
        for c in found:
            name = c["name"][len(prefix):]
            code.append(f"  {name}: {c['value']},")
            types += [f"  /** {c['doc']} */"] if c["doc"] else []
            types.append(f"  readonly {name}: {c['value']};")
        code.append("});")
        types.append("};")
    code += ["", "// name: result and parameters, as native.js names types; parameters of functions have their names, too"]
    for table, items in (("CALLBACKS", api["callbacks"]), ("FUNCTIONS", api["functions"]),
                         ("SERVE_FUNCTIONS", api["serve"]["functions"])):
        code.append(f"export const {table} = {{")
        for item in items:
            if table == "CALLBACKS":
                parts = map(type_name, [item["returns"], *item["params"]])
            else:
                parts = [type_name(item["returns"]), *map(declared, item["params"], [*item["params"][1:], None])]
            names = ", ".join(f"'{part}'" for part in parts)
            code.append(f"  {item['name']}: [{names}],")
        code.append("};")
    return "\n".join([*code, ""]), "\n".join([*types, ""])


# ---- Java ------------------------------------------------------------------------------------------------------------

JAVA_TYPES = {"int32_t": "int", "uint32_t": "int", "int64_t": "long", "uint64_t": "long", "size_t": "long", "float": "float",
              "double": "double", "void": "void"}


def as_java(api):
    """The interfaces that JNA implements, one for each library, and the constants, all of them int."""
    callbacks = {callback["name"] for callback in api["callbacks"]}

    def java_type(item):
        if item["type"] in callbacks:
            return item["type"]
        return "Pointer" if item["pointers"] else JAVA_TYPES[api["integers"].get(item["type"], item["type"])]

    def signature(item, name):
        params = ", ".join(f"{java_type(p)} {p['name']}" for p in item["params"])
        return f"{java_type(item['returns'])} {name}({params});"

    groups = {}
    for constant in api["constants"]:
        groups.setdefault(constant["group"], []).append(constant)
    abi = ["// The C ABI, made from include/trl/trl.h by bindings/generate.py.", "package libtrl;", "",
           "import com.sun.jna.Callback;", "import com.sun.jna.Library;", "import com.sun.jna.Pointer;", "",
           "interface Abi extends Library {"]
    abi += [f"  int {c['name'].removeprefix('TRL_')} = {c['value']};" for c in groups.pop("version")]
    for callback in api["callbacks"]:
        abi += ["", f"  interface {callback['name']} extends Callback {{", f"    {signature(callback, 'invoke')}", "  }"]
    for function in api["functions"]:
        abi += ["", f"  {signature(function, function['name'])}"]
    constants = ["// The constants of the C ABI, made from include/trl/trl.h by bindings/generate.py.", "package libtrl;", "",
                 "/** Constants of the library. A later version may add some, so that any int may come in place of one. */",
                 "public final class Constants {", "  private Constants() {}"]
    for group, found in groups.items():
        prefix = "TRL_" if group == "status" else f"TRL_{group.upper()}_"
        constants += ["", f"  /** {prefix}*. */", f"  public static final class {ENUMS[group]} {{",
                      f"    private {ENUMS[group]}() {{}}", ""]
        for c in found:
            constants += [f"    /** {c['doc']} */"] if c["doc"] else []
            constants.append(f"    public static final int {c['name'][len(prefix):]} = {c['value']};")
        constants.append("  }")
    serve = ["// The C ABI of libtrl_serve.so, made from include/trl/serve.h by bindings/generate.py.", "package libtrl;", "",
             "import com.sun.jna.Library;", "import com.sun.jna.Pointer;", "", "interface ServeAbi extends Library {"]
    for function in api["serve"]["functions"]:
        serve += [f"  {signature(function, function['name'])}", ""]
    return "\n".join([*abi, "}", ""]), "\n".join([*serve[:-1], "}", ""]), "\n".join([*constants, "}", ""])


def main():
    api = read_api()
    bad = False
    node, node_types = as_node(api)
    java, java_serve, java_constants = as_java(api)
    for name, text in (("api.json", as_json(api)), ("python/libtrl/_api.py", as_python(api)),
                       ("../include/trl/cpp/constants.hpp", as_cpp(api)), ("go/constants.go", as_go(api)),
                       ("go/serve_abi.h", as_go_serve(api)),
                       ("rust/trl-sys/src/abi.rs", as_rust(api)), ("rust/trl-sys/src/abi_serve.rs", as_rust_serve(api)),
                       ("rust/trl/src/constants.rs", as_rust_constants(api)),
                       ("node/lib/api.js", node), ("node/lib/api.d.ts", node_types),
                       ("java/src/libtrl/Abi.java", java), ("java/src/libtrl/ServeAbi.java", java_serve),
                       ("java/src/libtrl/Constants.java", java_constants)):
        path = os.path.join(HERE, name)
        if sys.argv[1:] != ["--check"]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        with open(path, encoding="utf-8") as file:
            there = file.read()
        if there != text:
            bad = True
            print(f"bindings/{name} is not what bindings/generate.py makes of the headers; run it:")
            sys.stdout.writelines(difflib.unified_diff(there.splitlines(True), text.splitlines(True), n=0))
    print(f"{len(api['functions'])} functions, {len(api['serve']['functions'])} of serve.h, {len(api['callbacks'])} callbacks, "
          f"{len(api['constants'])} constants")
    return bad


if __name__ == "__main__":
    sys.exit(main())
