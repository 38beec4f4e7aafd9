//! Calls of the library, and functions of the host that it calls within them.

use crate::error::HostError;
use crate::{Answer, Error, Result, Status};
use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::ops::ControlFlow;
use std::os::raw::{c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Mutex, TryLockError};
use std::{ptr, thread};
use trl_sys as sys;

/// How a function of the host failed.
pub(crate) enum Failure {
    Panic(Box<dyn Any + Send>),
    Error(HostError),
}

impl Failure {
    /// Resumes a panic, or gives the error.
    pub(crate) fn raise(self) -> Error {
        match self {
            Failure::Panic(payload) => resume_unwind(payload),
            Failure::Error(error) => Error::of_host(error),
        }
    }
}

thread_local! {
    /// How a function of the host failed within the innermost call of this thread.
    static FAILURE: Cell<Option<Failure>> = Cell::new(None);
    /// The error of a reward there, which `on_reward_error` may let pass.
    static REWARD: Cell<Option<HostError>> = Cell::new(None);
}

/// Replaces the failure of the innermost call. A thread that is ending has none.
fn replace_failure(failure: Option<Failure>) -> Option<Failure> {
    FAILURE.try_with(|cell| cell.replace(failure)).unwrap_or(None)
}

fn replace_reward(error: Option<HostError>) -> Option<HostError> {
    REWARD.try_with(|cell| cell.replace(error)).unwrap_or(None)
}

/// Keeps the error of a reward, for a call that ends with it. The first one counts.
pub(crate) fn reward_failed(error: HostError) {
    let first = replace_reward(None);
    replace_reward(first.or(Some(error)));
}

fn has_failed() -> bool {
    let failure = replace_failure(None);
    let failed = failure.is_some();
    replace_failure(failure);
    failed
}

/// Runs a call of the library, and tells how a function of the host failed within it.
fn within<T>(function: impl FnOnce() -> T) -> (T, Option<Failure>) {
    let outer = replace_failure(None);
    let result = function();
    (result, replace_failure(outer))
}

/// Until 1.0, a minor version may break things.
fn check_version() -> Result<()> {
    let version = unsafe { sys::trl_version() } as i32;
    let (major, minor) = (version >> 16, version >> 8 & 255);
    if major == sys::TRL_VERSION_MAJOR && (major != 0 || minor == sys::TRL_VERSION_MINOR) {
        return Ok(());
    }
    let expected = (sys::TRL_VERSION_MAJOR, sys::TRL_VERSION_MINOR);
    let message = format!("libtrl is of version {major}.{minor}; this crate is for {}.{}", expected.0, expected.1);
    Err(Error::new(Status::E_UNSUPPORTED, message))
}

/// Calls a function whose last parameter is `trl_error **`. Resumes a panic of the host's within the call, or returns
/// its error, or else the library's.
pub(crate) fn call(function: impl FnOnce(*mut *mut sys::trl_error) -> sys::trl_status) -> Result<Status> {
    check_version()?;
    let mut error = ptr::null_mut();
    let outer = replace_reward(None);
    let (status, failure) = within(|| function(&mut error));
    let reward = replace_reward(outer);
    let result = if status < 0 { Err(unsafe { Error::take(status, error) }) } else { Ok(Status(status)) };
    match (failure, result, reward) {
        (Some(failure), ..) => Err(failure.raise()),
        (None, Err(own), Some(error)) if own.status() == Status::E_CALLBACK && own.callback_code() == 0 => {
            Err(Error::of_host(error))
        }
        (None, result, _) => result,
    }
}

/// Calls a function that returns nothing, such as one that frees an object. A panic of what it drops is resumed.
pub(crate) fn call_void(function: impl FnOnce()) {
    if let ((), Some(Failure::Panic(payload))) = within(function) {
        if !thread::panicking() {
            resume_unwind(payload);
        }
    }
}

/// A copy of the text that a function gives by its last parameter but one.
pub(crate) fn ask_text(
    function: impl FnOnce(*mut *const c_char, *mut *mut sys::trl_error) -> sys::trl_status,
) -> Result<String> {
    let mut out = ptr::null();
    call(|error| function(&mut out, error))?;
    Ok(unsafe { text_or_none(out) }.unwrap_or_default().to_string())
}

/// The values that a function writes into a buffer with room for some, of which it tells the number.
pub(crate) fn fill<T: Clone + Default>(
    room: usize,
    mut function: impl FnMut(*mut T, usize, *mut usize, *mut *mut sys::trl_error) -> sys::trl_status,
) -> Result<Vec<T>> {
    let mut buffer = vec![T::default(); room];
    loop {
        let mut count = 0;
        call(|error| function(buffer.as_mut_ptr(), buffer.len(), &mut count, error))?;
        let fits = count <= buffer.len();
        buffer.resize(count, T::default());
        if fits {
            return Ok(buffer);
        }
    }
}

/// The text that a function writes into a buffer.
pub(crate) fn fill_text(
    mut function: impl FnMut(*mut c_char, usize, *mut usize, *mut *mut sys::trl_error) -> sys::trl_status,
) -> Result<String> {
    let text = fill(1024, |start: *mut u8, room, size, error| function(start.cast(), room, size, error))?;
    String::from_utf8(text).map_err(|error| Error::new(Status::E_INTERNAL, error.to_string()))
}

// ---- texts ----------------------------------------------------------------------------------------------------------

fn utf8(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(), // the library gives none
    }
}

/// A text of the library, which ends in NUL. The caller knows how long it lives.
pub(crate) unsafe fn text_or_none<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    Some(utf8(CStr::from_ptr(text).to_bytes()))
}

/// A text of the library with its size.
pub(crate) unsafe fn sized_text<'a>(text: *const c_char, size: usize) -> &'a str {
    if text.is_null() {
        return "";
    }
    utf8(std::slice::from_raw_parts(text.cast(), size))
}

/// A name or a value for the library, which ends in NUL.
pub(crate) fn c_text(text: &str) -> Result<CString> {
    c_bytes(text.as_bytes())
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    c_bytes(path.as_os_str().as_bytes())
}

fn c_bytes(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|error| {
        let text = String::from_utf8_lossy(bytes);
        Error::new(Status::E_INVALID_ARGUMENT, format!("{text:?} has a NUL at {}", error.nul_position()))
    })
}

/// NULL, or what an optional text points to.
pub(crate) fn pointer_of(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

// ---- functions of the host ------------------------------------------------------------------------------------------

/// What a function of the host may return: nothing to go on, `ControlFlow::Break(())` to stop, an [`Answer`], a number
/// as the header describes it, or a `Result` of one of these.
pub trait Reply {
    fn reply(self) -> std::result::Result<i32, HostError>;
}

impl Reply for () {
    fn reply(self) -> std::result::Result<i32, HostError> {
        Ok(0)
    }
}

impl Reply for i32 {
    fn reply(self) -> std::result::Result<i32, HostError> {
        Ok(self)
    }
}

impl Reply for Answer {
    fn reply(self) -> std::result::Result<i32, HostError> {
        Ok(self.0)
    }
}

impl Reply for ControlFlow<()> {
    fn reply(self) -> std::result::Result<i32, HostError> {
        Ok(if self.is_break() { sys::TRL_EVENT_STOP } else { 0 })
    }
}

impl<T: Reply, E: Into<HostError>> Reply for std::result::Result<T, E> {
    fn reply(self) -> std::result::Result<i32, HostError> {
        self.map_err(Into::into)?.reply()
    }
}

impl std::ops::BitOr for Answer {
    type Output = Answer;
    fn bitor(self, other: Answer) -> Answer {
        Answer(self.0 | other.0)
    }
}

/// Runs a function of the host.
pub(crate) fn attempt<T>(
    function: impl FnOnce() -> std::result::Result<T, HostError>,
) -> std::result::Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(result) => result.map_err(Failure::Error),
        Err(payload) => Err(Failure::Panic(payload)),
    }
}

/// Runs a function of the host within a call. How it fails is kept for the end of the call; until then no other one
/// runs.
pub(crate) fn guard<T: From<i32>>(function: impl FnOnce() -> std::result::Result<T, HostError>) -> T {
    if has_failed() {
        return sys::TRL_E_CALLBACK.into();
    }
    attempt(function).unwrap_or_else(|failure| {
        replace_failure(Some(failure));
        sys::TRL_E_CALLBACK.into()
    })
}

/// Has a function of the host run although another one has failed within the call, whose failure remains the call's.
pub(crate) fn despite_failure<T>(function: impl FnOnce() -> T) -> T {
    let first = replace_failure(None);
    let result = function();
    if first.is_some() {
        std::mem::forget(replace_failure(first));
    }
    result
}

/// A function of the host that is borrowed during one call, as user_data.
pub(crate) fn borrowed<F>(function: &mut F) -> *mut c_void {
    (function as *mut F).cast()
}

/// A function of the host that the library owns from now on, as user_data; `forget` frees it.
pub(crate) fn owned<F>(function: F) -> *mut c_void {
    Box::into_raw(Box::new(function)).cast()
}

pub(crate) unsafe extern "C" fn forget<F>(user_data: *mut c_void) {
    let function = user_data.cast::<F>();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(function)))) {
        match replace_failure(Some(Failure::Panic(payload))) {
            None => {}
            earlier => std::mem::forget(replace_failure(earlier)), // the first one counts
        }
    }
}

/// Runs what the library owns and calls once at a time. Another call meanwhile is told that it is busy.
pub(crate) fn exclusively<F, T>(
    function: &Mutex<F>,
    run: impl FnOnce(&mut F) -> std::result::Result<T, HostError>,
) -> std::result::Result<T, HostError> {
    match function.try_lock() {
        Ok(mut function) => run(&mut function),
        Err(TryLockError::Poisoned(function)) => run(&mut function.into_inner()),
        Err(TryLockError::WouldBlock) => {
            Err(Error::new(Status::E_BUSY, "this function of the host runs already").into())
        }
    }
}
