#![doc = include_str!("../../README.md")]

macro_rules! named {
    ($name:ident) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => out.write_str(name),
                    None => write!(out, "{}({})", stringify!($name), self.0),
                }
            }
        }
    };
}

mod call;
mod config;
#[rustfmt::skip]
mod constants;
mod data;
mod error;
mod generate;
mod handle;
mod model;
mod option;
mod rollout;
mod runtime;
#[cfg(feature = "serve")]
mod server;
mod tensor;
mod tokenizer;
mod train;

pub use call::Reply;
pub use config::Config;
pub use constants::{Answer, EventKind, LogLevel, OptionType, Status, TextForm, WriteKind};
pub use data::{Dataset, Profile, Record};
pub use error::{Error, HostError, Place, Result};
pub use generate::{Completion, Completions, Generator, Prompt, Stream, Token};
pub use model::{convert, Model};
pub use option::{build_info, has_feature, options, version, version_number, ConfigOption};
pub use rollout::Rollout;
pub use runtime::{cancel_all, shutdown, Memory, Runtime};
#[cfg(feature = "serve")]
pub use server::Server;
pub use tensor::{Bf16, DType, Element, Tensor, F16};
pub use tokenizer::Tokenizer;
pub use train::{check, plan, Control, Evaluator, Event, Metrics, Plan, Trainer};
/// The C ABI.
pub use trl_sys as sys;
