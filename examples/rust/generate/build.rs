//! The program finds libtrl.so where it was linked from.

fn main() {
    if let Ok(folder) = std::env::var("DEP_TRL_LIBDIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
