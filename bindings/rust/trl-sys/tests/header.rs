//! The declarations of abi.rs are those of trl.h, and those of abi_serve.rs those of serve.h: each is written in C, and a compiler compares it with the header's.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const ABI: &str = concat!(include_str!("../src/abi.rs"), include_str!("../src/abi_serve.rs"));

/// A type of Rust in C; what points to something const says so after what is pointed to.
fn c_type(rust: &str) -> String {
    if let Some(to) = rust.strip_prefix("*const ") {
        return c_type(to) + " const*";
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return c_type(to) + "*";
    }
    let name = match rust {
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "u8" => "uint8_t",
        "usize" => "size_t",
        "f32" => "float",
        "f64" => "double",
        "c_char" => "char",
        "c_void" => "void",
        "ArrowArrayStream" => "struct ArrowArrayStream",
        "DLManagedTensorVersioned" => "struct DLManagedTensorVersioned",
        name => {
            assert!(name.starts_with("trl_"), "no type of C is known for {name}");
            name
        }
    };
    name.to_string()
}

/// `(name: type, ...) -> type` as what stands before and after the name of a function pointer in C.
fn c_signature(rust: &str) -> (String, String) {
    let (params, returns) = rust.rsplit_once(')').expect("a signature");
    let params: Vec<String> = params
        .trim_start_matches('(')
        .split(", ")
        .filter(|param| !param.is_empty())
        .map(|param| c_type(param.split_once(": ").expect("a parameter").1))
        .collect();
    let params = if params.is_empty() { "void".to_string() } else { params.join(", ") };
    (c_type(returns.strip_prefix(" -> ").unwrap_or("c_void")), params)
}

fn program() -> (String, [usize; 4]) {
    let mut out = String::from("#include <trl/serve.h>\n");
    let mut count = [0; 4];
    for line in ABI.lines().map(str::trim) {
        if let Some((name, signature)) = line.strip_prefix("pub fn ").and_then(|rest| rest.split_once('(')) {
            let (returns, params) = c_signature(signature.trim_end_matches(';'));
            writeln!(out, "{returns} (*const check_{name})({params}) = {name};").unwrap();
            count[0] += 1;
        } else if let Some((name, signature)) = line
            .strip_prefix("pub type ")
            .and_then(|rest| rest.strip_suffix(">;"))
            .and_then(|rest| rest.split_once(" = Option<unsafe extern \"C\" fn("))
        {
            let (returns, params) = c_signature(signature);
            writeln!(out, "{name} check_{name} = ({returns} (*)({params}))0;").unwrap();
            writeln!(out, "_Static_assert(_Generic(({name})0, {returns} (*)({params}): 1, default: 0), \"{name}\");")
                .unwrap();
            count[1] += 1;
        } else if let Some((name, value)) = line.strip_prefix("pub const ").and_then(|rest| rest.split_once(": i32 = "))
        {
            writeln!(out, "_Static_assert({name} == {} \"{name}\");", value.replace(';', ",")).unwrap();
            count[2] += 1;
        } else if let Some((name, of)) = line.strip_prefix("pub type ").and_then(|rest| rest.split_once(" = ")) {
            let of = c_type(of.trim_end_matches(';'));
            writeln!(out, "_Static_assert(_Generic(({name})0, {of}: 1, default: 0), \"{name}\");").unwrap();
            count[3] += 1;
        }
    }
    out.push_str("_Static_assert(sizeof(size_t) == sizeof(void*), \"usize\");\n");
    (out, count)
}

/// Whether a compiler takes a program together with the header.
fn compiles(name: &str, text: &str) -> Result<(), String> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include");
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&source, text).unwrap();
    let done = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_string()))
        .args(["-std=c11", "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only", "-I"])
        .args([&include, &source])
        .output()
        .expect("a C compiler");
    if done.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn declarations_are_those_of_the_header() {
    let (text, [functions, callbacks, constants, integers]) = program();
    assert_eq!(functions, ABI.matches("pub fn ").count());
    assert_eq!(callbacks, ABI.matches("Option<unsafe extern").count());
    assert_eq!(constants, ABI.matches("pub const ").count());
    assert!(functions > 60 && callbacks > 6 && constants > 30 && integers == 1);
    compiles("declarations.c", &text).unwrap();
}

/// What a wrong declaration would be is refused, so that the comparison means something.
#[test]
fn another_declaration_is_refused() {
    let (text, _) = program();
    for (index, (right, wrong)) in [
        ("(*const check_trl_config_get)(trl_config const*", "(*const check_trl_config_get)(trl_config*"),
        (
            "trl_runtime*, int64_t, trl_error**) = trl_runtime_set_memory_limit",
            "trl_runtime*, size_t, trl_error**) = trl_runtime_set_memory_limit",
        ),
        ("char const*const*", "char const**"),
        ("void*, int32_t, trl_metrics const*", "void*, size_t, trl_metrics const*"),
        ("trl_server*, double, trl_error**) = trl_server_stop", "trl_server*, float, trl_error**) = trl_server_stop"),
        ("TRL_E_BUSY == -12", "TRL_E_BUSY == -13"),
    ]
    .into_iter()
    .enumerate()
    {
        let right = right.replace("const*const*", "const* const*");
        assert!(text.contains(&right), "{right}");
        assert!(compiles(&format!("wrong_{index}.c"), &text.replace(&right, wrong)).is_err(), "{wrong}");
    }
}
