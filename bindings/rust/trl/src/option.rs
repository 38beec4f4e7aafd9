//! The table of options, and what this build is.

use crate::call::{c_text, pointer_of, text_or_none};
use crate::OptionType;
use std::os::raw::c_char;
use std::{fmt, ptr};
use trl_sys as sys;

/// The version of the library, such as "0.1.0".
pub fn version() -> &'static str {
    unsafe { text_or_none(sys::trl_version_string()) }.unwrap_or_default()
}

/// The version of the library: `(major << 16) | (minor << 8) | patch`.
pub fn version_number() -> u32 {
    unsafe { sys::trl_version() }
}

/// How the library was built, as a JSON object.
pub fn build_info() -> &'static str {
    unsafe { text_or_none(sys::trl_build_info()) }.unwrap_or_default()
}

/// Whether this build has a feature of the list `features` of `build_info`.
pub fn has_feature(name: &str) -> bool {
    c_text(name).map_or(false, |name| unsafe { sys::trl_has_feature(name.as_ptr()) != 0 })
}

/// A key of a configuration, as the library describes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConfigOption(*const sys::trl_option);

unsafe impl Send for ConfigOption {}
unsafe impl Sync for ConfigOption {}

type Ask = unsafe extern "C" fn(*const sys::trl_option) -> *const c_char;
type AskFor = unsafe extern "C" fn(*const sys::trl_option, *const c_char) -> *const c_char;

impl ConfigOption {
    fn text(self, ask: Ask) -> &'static str {
        unsafe { text_or_none(ask(self.0)) }.unwrap_or_default()
    }

    fn list(self, ask: Ask) -> impl Iterator<Item = &'static str> {
        self.text(ask).split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    /// `None` for a trainer that lacks the option.
    fn text_for<'a>(self, ask: AskFor, trainer: impl Into<Option<&'a str>>) -> Option<&'static str> {
        let trainer = trainer.into().map(c_text).transpose().ok()?;
        unsafe { text_or_none(ask(self.0, pointer_of(&trainer))) }
    }

    /// The option of a name, or of an older one.
    pub fn find(name: &str) -> Option<ConfigOption> {
        options().find(|option| option.name() == name || option.aliases().any(|alias| alias == name))
    }

    pub fn name(self) -> &'static str {
        self.text(sys::trl_option_name)
    }

    pub fn section(self) -> &'static str {
        self.text(sys::trl_option_section)
    }

    pub fn group(self) -> &'static str {
        self.text(sys::trl_option_group)
    }

    pub fn origin(self) -> &'static str {
        self.text(sys::trl_option_origin)
    }

    /// The type of its value, in one trainer or in the table; `None` for a trainer that lacks it.
    pub fn value_type<'a>(self, trainer: impl Into<Option<&'a str>>) -> Option<OptionType> {
        let trainer = trainer.into().map(c_text).transpose().ok()?;
        let number = unsafe { sys::trl_option_type(self.0, pointer_of(&trainer)) };
        (number >= 0).then_some(OptionType(number))
    }

    pub fn is_nullable(self) -> bool {
        unsafe { sys::trl_option_nullable(self.0) == 1 }
    }

    /// The trainers that have it.
    pub fn trainers(self) -> impl Iterator<Item = &'static str> {
        self.list(sys::trl_option_trainers)
    }

    /// Older names, which are understood.
    pub fn aliases(self) -> impl Iterator<Item = &'static str> {
        self.list(sys::trl_option_aliases)
    }

    /// Names that other tools have for it, which are not accepted.
    pub fn other_names(self) -> impl Iterator<Item = &'static str> {
        self.list(sys::trl_option_other_names)
    }

    /// The default as canonical text, "null" if there is none, in one trainer or in the table; `None` for a trainer
    /// that lacks it.
    pub fn default<'a>(self, trainer: impl Into<Option<&'a str>>) -> Option<&'static str> {
        self.text_for(sys::trl_option_default, trainer)
    }

    /// The same for the values that it takes within its type; "" for any.
    pub fn accepted<'a>(self, trainer: impl Into<Option<&'a str>>) -> Option<&'static str> {
        self.text_for(sys::trl_option_accepted, trainer)
    }

    /// The same for its meaning.
    pub fn doc<'a>(self, trainer: impl Into<Option<&'a str>>) -> Option<&'static str> {
        self.text_for(sys::trl_option_doc, trainer)
    }

    pub fn since(self) -> &'static str {
        self.text(sys::trl_option_since)
    }

    pub fn unsupported_reason(self) -> &'static str {
        self.text(sys::trl_option_unsupported_reason)
    }

    pub fn ignored_reason(self) -> &'static str {
        self.text(sys::trl_option_ignored_reason)
    }

    pub fn taken(self) -> &'static str {
        self.text(sys::trl_option_taken)
    }
}

impl fmt::Debug for ConfigOption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ConfigOption({})", self.name())
    }
}

/// Walks the table of options.
pub fn options() -> impl Iterator<Item = ConfigOption> {
    let next = |previous: *const sys::trl_option| {
        let option = unsafe { sys::trl_option_next(previous) };
        (!option.is_null()).then_some(ConfigOption(option))
    };
    std::iter::successors(next(ptr::null()), move |option| next(option.0))
}
