//! What the tests share.
#![allow(dead_code)]

pub mod json;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use trl::Dataset;

pub const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
pub const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/golden/models/qwen2");

/// A folder that is removed with it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("trl-rust-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Rows of lines of JSON.
pub fn rows(lines: &[&str]) -> Dataset {
    Dataset::from_buffer("jsonl", lines.join("\n").as_bytes(), None, None).unwrap()
}

/// Rows of the host's with one text each.
pub fn asked(texts: &'static [&'static str]) -> Dataset {
    Dataset::from_rows(move || texts.iter(), |record, text| record.set_text("text", text), None, None).unwrap()
}

/// The message of a panic that a function ends with.
pub fn panic_of<T>(function: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(function)).err().expect("a panic");
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload.downcast_ref::<&str>().expect("a message").to_string(),
    }
}
