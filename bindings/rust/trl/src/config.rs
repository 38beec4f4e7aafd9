//! A configuration: TRL's keys and their values.

use crate::call::{ask_text, c_path, c_text, call, pointer_of as pointer_of_text};
use crate::handle::Handle;
use crate::Result;
use std::fmt;
use std::path::Path;
use std::ptr;
use trl_sys as sys;

/// Keys and values as text. A key that was not set has its default; an unknown one is an error that names the one that
/// was meant.
pub struct Config {
    handle: Handle<sys::trl_config>,
}

impl Config {
    /// An empty configuration: every key has its default.
    pub fn new() -> Result<Config> {
        Ok(Config { handle: Handle::create(|out, error| unsafe { sys::trl_config_create(out, error) })? })
    }

    /// A configuration with these keys.
    pub fn with<K: AsRef<str>, V: fmt::Display>(keys: impl IntoIterator<Item = (K, V)>) -> Result<Config> {
        let mut config = Config::new()?;
        for (key, value) in keys {
            config.set(key.as_ref(), value)?;
        }
        Ok(config)
    }

    /// Sets one key to a text, number or truth value; lists and maps are JSON or YAML.
    pub fn set(&mut self, key: &str, value: impl fmt::Display) -> Result<()> {
        let (key, value) = (c_text(key)?, c_text(&value.to_string())?);
        call(|error| unsafe { sys::trl_config_set(self.pointer(), key.as_ptr(), value.as_ptr(), error) })?;
        Ok(())
    }

    /// Sets one key back to its default.
    pub fn unset(&mut self, key: &str) -> Result<()> {
        let key = c_text(key)?;
        call(|error| unsafe { sys::trl_config_unset(self.pointer(), key.as_ptr(), error) })?;
        Ok(())
    }

    /// The canonical text of a value, "null" when there is none.
    pub fn get(&self, key: &str) -> Result<String> {
        let key = c_text(key)?;
        ask_text(|out, error| unsafe { sys::trl_config_get(self.pointer(), key.as_ptr(), out, error) })
    }

    /// Where a value comes from: "default", "set", or the place in a file.
    pub fn origin(&self, key: &str) -> Result<String> {
        let key = c_text(key)?;
        ask_text(|out, error| unsafe { sys::trl_config_get_origin(self.pointer(), key.as_ptr(), out, error) })
    }

    /// Sets every key of a YAML or JSON file.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = c_path(path.as_ref())?;
        call(|error| unsafe { sys::trl_config_load(self.pointer(), path.as_ptr(), error) })?;
        Ok(())
    }

    /// Sets every key of a YAML or JSON text.
    pub fn load_text(&mut self, text: &str) -> Result<()> {
        let (start, size) = (text.as_ptr().cast(), text.len());
        call(|error| unsafe { sys::trl_config_load_text(self.pointer(), start, size, error) })?;
        Ok(())
    }

    /// The keys that were set, under their canonical names, as a JSON object.
    pub fn describe(&self) -> Result<String> {
        ask_text(|out, error| unsafe { sys::trl_config_describe(self.pointer(), out, error) })
    }

    /// The warnings about the keys that were set, as a JSON list of texts.
    pub fn warnings(&self) -> Result<String> {
        ask_text(|out, error| unsafe { sys::trl_config_get_warnings(self.pointer(), out, error) })
    }

    /// The JSON schema of a configuration file: of the keys of one trainer, such as "sft", or of all keys.
    pub fn schema<'a>(trainer: impl Into<Option<&'a str>>) -> Result<String> {
        let trainer = trainer.into().map(c_text).transpose()?;
        ask_text(|out, error| unsafe { sys::trl_config_get_schema(pointer_of_text(&trainer), out, error) })
    }

    fn pointer(&self) -> *mut sys::trl_config {
        self.handle.get()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Config({})", self.describe().map_err(|_| fmt::Error)?)
    }
}

pub(crate) fn pointer_of(options: Option<&Config>) -> *const sys::trl_config {
    options.map_or(ptr::null(), |options| options.pointer())
}
