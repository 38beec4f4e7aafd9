//! The threads, memory limit, log and progress of what is created with it.

use crate::call::{ask_text, c_text, call, forget, guard, owned, pointer_of, sized_text, text_or_none, Reply};
use crate::config;
use crate::handle::Handle;
use crate::{Config, LogLevel, Result};
use std::os::raw::{c_char, c_void};
use std::ptr;
use trl_sys as sys;

/// Bytes that large buffers hold now, and held at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub now: i64,
    pub peak: i64,
}

/// Everything that takes a runtime also works without one.
pub struct Runtime {
    handle: Handle<sys::trl_runtime>,
}

impl Runtime {
    pub fn new<'a>(config: impl Into<Option<&'a Config>>) -> Result<Runtime> {
        let config = config::pointer_of(config.into());
        Ok(Runtime { handle: Handle::create(|out, error| unsafe { sys::trl_runtime_create(config, out, error) })? })
    }

    /// Sends log lines to a function of the level, the component and the text, on any thread that is inside a call.
    /// Within it, nothing of the library may be used.
    pub fn set_log<F>(&mut self, log: F) -> Result<()>
    where
        F: Fn(LogLevel, &str, &str) + Send + Sync + 'static,
    {
        call(|error| unsafe {
            sys::trl_runtime_set_log(self.handle.get(), Some(log_line::<F>), owned(log), Some(forget::<F>), error)
        })?;
        Ok(())
    }

    pub fn clear_log(&mut self) -> Result<()> {
        call(|error| unsafe { sys::trl_runtime_set_log(self.handle.get(), None, ptr::null_mut(), None, error) })?;
        Ok(())
    }

    /// Tells a function of calls that open, make or save something: the phase, how much is done, and the total, -1 if
    /// it is not known. To stop ends the call with `E_CANCELLED`.
    pub fn set_progress<F, R>(&self, progress: F) -> Result<()>
    where
        F: Fn(&str, i64, i64) -> R + Send + Sync + 'static,
        R: Reply,
    {
        call(|error| unsafe {
            let function = Some(progressed::<F, R> as unsafe extern "C" fn(_, _, _, _) -> _);
            sys::trl_runtime_set_progress(self.handle.get(), function, owned(progress), Some(forget::<F>), error)
        })?;
        Ok(())
    }

    pub fn clear_progress(&self) -> Result<()> {
        call(|error| unsafe { sys::trl_runtime_set_progress(self.handle.get(), None, ptr::null_mut(), None, error) })?;
        Ok(())
    }

    /// Sets the limit of the process for large buffers, in bytes; 0: none.
    pub fn set_memory_limit(&self, bytes: i64) -> Result<()> {
        call(|error| unsafe { sys::trl_runtime_set_memory_limit(self.handle.get(), bytes, error) })?;
        Ok(())
    }

    /// The memory of large buffers of a kind, or of all.
    pub fn memory<'a>(&self, kind: impl Into<Option<&'a str>>) -> Result<Memory> {
        let kind = kind.into().map(c_text).transpose()?;
        let (mut now, mut peak) = (0, 0);
        call(|error| unsafe {
            sys::trl_runtime_memory(self.handle.get(), pointer_of(&kind), &mut now, &mut peak, error)
        })?;
        Ok(Memory { now, peak })
    }

    /// Describes the runtime and the engine, which it opens, as a JSON object.
    pub fn describe(&self) -> Result<String> {
        ask_text(|out, error| unsafe { sys::trl_runtime_describe(self.handle.get(), out, error) })
    }

    /// Ends the calls that are in progress on this runtime, from any thread.
    pub fn cancel(&self) {
        unsafe { sys::trl_runtime_cancel(self.handle.get()) }
    }
}

/// Ends the calls that are in progress in the whole process.
pub fn cancel_all() {
    unsafe { sys::trl_runtime_cancel(ptr::null_mut()) }
}

/// Ends the threads that the library keeps between calls; it starts them again when it needs them.
pub fn shutdown() -> Result<()> {
    call(|error| unsafe { sys::trl_runtime_shutdown(error) })?;
    Ok(())
}

pub(crate) fn pointer_of_runtime(runtime: Option<&Runtime>) -> *mut sys::trl_runtime {
    runtime.map_or(ptr::null_mut(), |runtime| runtime.handle.get())
}

unsafe extern "C" fn log_line<F: Fn(LogLevel, &str, &str)>(
    user_data: *mut c_void,
    level: i32,
    component: *const c_char,
    text: *const c_char,
    size: usize,
) {
    guard(|| {
        let log = &*user_data.cast::<F>();
        log(LogLevel(level), text_or_none(component).unwrap_or_default(), sized_text(text, size));
        Ok(0)
    });
}

unsafe extern "C" fn progressed<F: Fn(&str, i64, i64) -> R, R: Reply>(
    user_data: *mut c_void,
    phase: *const c_char,
    done: i64,
    total: i64,
) -> i32 {
    guard(|| {
        let progress = &*user_data.cast::<F>();
        progress(text_or_none(phase).unwrap_or_default(), done, total).reply()
    })
}
