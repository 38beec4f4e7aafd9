//! The threads, memory limit, log and progress of what is created with it.

use crate::call::{
    ask_text, c_text, call, despite_failure, forget, guard, owned, pointer_of, sized_text, text_or_none, Reply,
};
use crate::config;
use crate::error::HostError;
use crate::handle::Handle;
use crate::{Config, LogLevel, Result, WriteKind};
use std::os::raw::{c_char, c_void};
use std::{ptr, slice};
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

    /// Makes "host://NAME" the path of a folder whose files are read and saved by functions of the host, as long as
    /// this runtime lives, and what was made with it.
    ///
    /// `read` gets the path of a file in it, an offset and a buffer. It fills the buffer from there on, and gives the
    /// number of bytes, which is less than the buffer's only at the end of the file; without a buffer, the size of the
    /// file; and `None` if there is no such file. `write` gets what it is told, the path, an offset and the bytes; of a
    /// save that has failed it is told even after its own error or panic.
    ///
    /// ```no_run
    /// use std::{collections::HashMap, io::Read};
    ///
    /// fn mount(runtime: &trl::Runtime, files: HashMap<String, Vec<u8>>) -> trl::Result<()> {
    ///     runtime.mount_to_read("memory", move |file, offset, buffer| -> std::io::Result<Option<u64>> {
    ///         Ok(match (files.get(file), buffer) {
    ///             (None, _) => None,
    ///             (Some(data), None) => Some(data.len() as u64),
    ///             (Some(data), Some(buffer)) => Some((&data[offset as usize..]).read(buffer)? as u64),
    ///         })
    ///     })
    /// }
    /// ```
    pub fn mount<Read, Write, E, R>(&self, name: &str, read: Read, write: Write) -> Result<()>
    where
        Read: Fn(&str, u64, Option<&mut [u8]>) -> std::result::Result<Option<u64>, E> + Send + Sync + 'static,
        Write: Fn(WriteKind, &str, u64, &[u8]) -> R + Send + Sync + 'static,
        E: Into<HostError>,
        R: Reply,
    {
        let (reads, writes) = (read_file::<Read, Write, E> as ReadFile, write_file::<Read, Write, R> as WriteFile);
        self.mount_files(name, Some(reads), Some(writes), Files { read, write })
    }

    /// The same for files that are only read.
    pub fn mount_to_read<Read, E>(&self, name: &str, read: Read) -> Result<()>
    where
        Read: Fn(&str, u64, Option<&mut [u8]>) -> std::result::Result<Option<u64>, E> + Send + Sync + 'static,
        E: Into<HostError>,
    {
        self.mount_files(name, Some(read_file::<Read, (), E>), None, Files { read, write: () })
    }

    /// The same for files that are only saved.
    pub fn mount_to_write<Write, R>(&self, name: &str, write: Write) -> Result<()>
    where
        Write: Fn(WriteKind, &str, u64, &[u8]) -> R + Send + Sync + 'static,
        R: Reply,
    {
        self.mount_files(name, None, Some(write_file::<(), Write, R>), Files { read: (), write })
    }

    fn mount_files<Read, Write>(
        &self,
        name: &str,
        read: sys::trl_read_fn,
        write: sys::trl_write_fn,
        files: Files<Read, Write>,
    ) -> Result<()> {
        let name = c_text(name)?;
        call(|error| unsafe {
            let (runtime, destroy) = (self.handle.get(), Some(forget::<Files<Read, Write>> as unsafe extern "C" fn(_)));
            sys::trl_runtime_mount(runtime, name.as_ptr(), read, write, owned(files), destroy, error)
        })?;
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

type ReadFile = unsafe extern "C" fn(*mut c_void, *const c_char, u64, *mut c_void, usize) -> i64;
type WriteFile = unsafe extern "C" fn(*mut c_void, i32, *const c_char, u64, *const c_void, usize) -> i32;

/// The functions of a mount.
struct Files<Read, Write> {
    read: Read,
    write: Write,
}

unsafe extern "C" fn read_file<Read, Write, E>(
    user_data: *mut c_void,
    file: *const c_char,
    offset: u64,
    buffer: *mut c_void,
    size: usize,
) -> i64
where
    Read: Fn(&str, u64, Option<&mut [u8]>) -> std::result::Result<Option<u64>, E>,
    E: Into<HostError>,
{
    guard(|| {
        let files = &*user_data.cast::<Files<Read, Write>>();
        let buffer = (!buffer.is_null()).then(|| slice::from_raw_parts_mut(buffer.cast(), size));
        let count = (files.read)(text_or_none(file).unwrap_or_default(), offset, buffer).map_err(Into::into)?;
        Ok(count.map_or(Ok(sys::TRL_E_NOT_FOUND.into()), i64::try_from)?)
    })
}

unsafe extern "C" fn write_file<Read, Write, R>(
    user_data: *mut c_void,
    kind: i32,
    file: *const c_char,
    offset: u64,
    data: *const c_void,
    size: usize,
) -> i32
where
    Write: Fn(WriteKind, &str, u64, &[u8]) -> R,
    R: Reply,
{
    let write = || {
        guard(|| {
            let files = &*user_data.cast::<Files<Read, Write>>();
            let data = if data.is_null() { &[] } else { slice::from_raw_parts(data.cast(), size) };
            (files.write)(WriteKind(kind), text_or_none(file).unwrap_or_default(), offset, data).reply()
        })
    };
    match WriteKind(kind) {
        WriteKind::DROPPED => despite_failure(write), // what was written is dropped whatever has failed
        _ => write(),
    }
}
