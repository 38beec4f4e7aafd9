//! What the tests share.
#![allow(dead_code)]

pub mod json;

use json::Json;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use trl::{Config, Control, Dataset, Model, Trainer};

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

// ---- with the engine ------------------------------------------------------------------------------------------------

pub const TEXTS: &[&str] = &["the kernel waits", "the driver wakes", "a page is read", "a lock is taken"];

pub fn options<V: std::fmt::Display>(keys: &[(&str, V)]) -> Config {
    Config::with(keys.iter().map(|(key, value)| (key, value))).unwrap()
}

pub fn config(folder: &Folder, keys: &[(&str, &str)]) -> Config {
    let mut config = options(&[
        ("model_name_or_path", MODEL),
        ("max_steps", "4"),
        ("per_device_train_batch_size", "2"),
        ("save_strategy", "no"),
        ("logging_strategy", "no"),
        ("report_to", "none"),
        ("bf16", "false"),
    ]);
    config.set("output_dir", folder.join("out").display()).unwrap();
    for (key, value) in keys {
        config.set(key, value).unwrap();
    }
    config
}

pub fn trainer(folder: &Folder, keys: &[(&str, &str)]) -> Trainer {
    Trainer::new(&config(folder, keys), &asked(TEXTS), None, None).unwrap()
}

pub fn global_step(trainer: &Control) -> f64 {
    Json::read(&trainer.describe().unwrap())["global_step"].number()
}

pub const MATRIX: &str = "model.layers.0.mlp.down_proj.weight";

/// The numbers of a tensor.
pub fn numbers(model: &mut Model, name: &str) -> Vec<f32> {
    model.read_tensor(name).unwrap().as_slice::<f32>().unwrap().to_vec()
}
