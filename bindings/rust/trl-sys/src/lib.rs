//! The C ABI of libtrl. Use the crate `trl`, unless it lacks something.
#![allow(non_camel_case_types)]

#[rustfmt::skip]
mod abi;
pub use abi::*;

#[cfg(feature = "serve")]
#[rustfmt::skip]
mod abi_serve;
#[cfg(feature = "serve")]
pub use abi_serve::*;
