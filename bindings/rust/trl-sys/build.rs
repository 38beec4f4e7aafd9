//! Finds libtrl.so, and with the feature `serve` libtrl_serve.so beside it: in the folder TRL_LIBRARY_DIR, or by pkg-config, or where the linker looks. Packages that depend on this
//! one directly are told the folder as DEP_TRL_LIBDIR, such as for an rpath.

use std::env;
use std::process::Command;

fn main() {
    for name in ["TRL_LIBRARY_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    match env::var("TRL_LIBRARY_DIR").ok().or_else(ask_pkg_config) {
        Some(folder) => {
            println!("cargo:rustc-link-search=native={folder}");
            println!("cargo:libdir={folder}");
        }
        None => println!("cargo:warning=neither TRL_LIBRARY_DIR nor pkg-config tells where libtrl.so is"),
    }
    if env::var_os("CARGO_FEATURE_SERVE").is_some() {
        println!("cargo:rustc-link-lib=dylib=trl_serve");
    }
    println!("cargo:rustc-link-lib=dylib=trl");
}

fn ask_pkg_config() -> Option<String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let answer = Command::new(program).args(["--variable=libdir", "trl"]).output().ok()?;
    let folder = String::from_utf8(answer.stdout).ok()?.trim().to_string();
    (answer.status.success() && !folder.is_empty()).then_some(folder)
}
