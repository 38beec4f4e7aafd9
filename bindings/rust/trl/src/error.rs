//! What functions fail with.

use crate::call::text_or_none;
use crate::Status;
use std::{fmt, ptr};
use trl_sys as sys;

/// An error of the host, which its functions may return.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

pub type Result<T> = std::result::Result<T, Error>;

/// A place in what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The path, or the name of what is not a file, such as "text".
    pub file: String,
    /// The line in a file of text, from 1, if it is known.
    pub line: Option<u64>,
    /// The column in that line, in bytes, from 1, if it is known.
    pub column: Option<u64>,
    /// The row of the dataset, from 0, if one is at fault and known.
    pub row: Option<u64>,
}

/// An error of the library, or one that a function of the host has returned, which is its source then. The wording of
/// the message may change; act on the status and the key.
#[derive(Debug)]
pub struct Error {
    status: Status,
    message: String,
    key: Option<String>,
    place: Option<Place>,
    callback_code: i32,
    source: Option<HostError>,
}

impl Error {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Error {
        Error { status, message: message.into(), key: None, place: None, callback_code: 0, source: None }
    }

    /// The error of a status below 0. `error` may be NULL; it is freed.
    pub(crate) unsafe fn take(status: i32, error: *mut sys::trl_error) -> Error {
        debug_assert!(error.is_null() || sys::trl_error_code(error) == status);
        let message = text_or_none(sys::trl_error_message(error)).filter(|message| !message.is_empty());
        let taken = Error {
            status: Some(Status(status)).filter(|known| known.name().is_some()).unwrap_or(Status::E_INTERNAL),
            message: message.map_or_else(|| Status(status).to_string(), str::to_string),
            key: text_or_none(sys::trl_error_key(error)).map(str::to_string),
            place: place_of(error),
            callback_code: sys::trl_error_callback_code(error),
            source: None,
        };
        sys::trl_error_destroy(error);
        taken
    }

    /// What a function of the host has returned: an error of this type as it is.
    pub(crate) fn of_host(error: HostError) -> Error {
        match error.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => {
                Error { source: Some(other), ..Error::new(Status::E_CALLBACK, "a function of the host failed") }
            }
        }
    }

    /// The status; one that this version does not know is `E_INTERNAL`.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The key of the configuration, if one is at fault.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The place in what was read, if it is known.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// What a function of the host has returned to the library, if that was the error.
    pub fn callback_code(&self) -> i32 {
        self.callback_code
    }
}

unsafe fn place_of(error: *const sys::trl_error) -> Option<Place> {
    let (mut file, mut line, mut column, mut row) = (ptr::null(), 0, 0, -1);
    if sys::trl_error_place(error, &mut file, &mut line, &mut column, &mut row) == 0 {
        return None;
    }
    let known = |number: i64, least| u64::try_from(number).ok().filter(|&number| number >= least);
    Some(Place {
        file: text_or_none(file).unwrap_or_default().to_string(),
        line: known(line, 1),
        column: known(column, 1),
        row: known(row, 0),
    })
}

/// The library's name of it, such as "TRL_E_BUSY".
impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(unsafe { text_or_none(sys::trl_status_name(self.0)) }.unwrap_or_default())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
