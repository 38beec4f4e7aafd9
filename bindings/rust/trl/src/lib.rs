//! Fine-tunes language models as Hugging Face TRL does, by libtrl.so.
//!
//! ```no_run
//! use trl::{Config, Dataset, EventKind, Trainer};
//!
//! # fn main() -> trl::Result<()> {
//! let config = Config::with([("model_name_or_path", "smollm2"), ("output_dir", "out"), ("max_steps", "20")])?;
//! let rows = Dataset::open("rows.jsonl", &config, None)?;
//! let mut trainer = Trainer::new(&config, &rows, None, None)?;
//! trainer.train(|event| {
//!     if event.kind() == EventKind::STEP {
//!         println!("{:?} {:?}", event.get("step"), event.get("loss"));
//!     }
//! })?;
//! trainer.save(None)?;
//! for token in trainer.generator()?.stream("one", None)? {
//!     print!("{}", token?.1);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - Objects free what they hold of the library when they are dropped, in any order: the library keeps alive what it needs.
//! - What the header calls exclusive takes `&mut self`, what may run concurrently `&self`. All objects can be sent to another
//!   thread and shared; what is valid during a call or a function of the host only is borrowed for that time.
//! - Functions that take options, a runtime or a tokenizer take `&x` or `None`.
//! - Closures run on the thread that is inside a call. A panic within one ends the call, which resumes it; an `Err` ends the
//!   call, which returns it: a [`Error`] as it is, any other error as the `source` of one with the status `E_CALLBACK`.
//!   Until then no other closure runs in that call.
//! - Whatever the library tells as JSON is a text; the crate has no dependency to read it.

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
mod tokenizer;
mod train;

pub use call::Reply;
pub use config::Config;
pub use constants::{Answer, EventKind, LogLevel, OptionType, Status, TextForm};
pub use data::{Dataset, Profile, Record};
pub use error::{Error, HostError, Result};
pub use generate::{Completion, Completions, Generator, Prompt, Stream, Token};
pub use model::{convert, Model};
pub use option::{build_info, has_feature, options, version, version_number, ConfigOption};
pub use rollout::Rollout;
pub use runtime::{cancel_all, shutdown, Memory, Runtime};
pub use tokenizer::Tokenizer;
pub use train::{check, plan, Control, Evaluator, Event, Metrics, Plan, Trainer};
/// The C ABI.
pub use trl_sys as sys;
