//! Rows that a trainer asks the host about.

use crate::call::{ask_text, c_text, call, exclusively, guard, pointer_of, reward_failed};
use crate::error::HostError;
use crate::{Error, Result, Status};
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{ptr, thread};
use trl_sys as sys;

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// The function that got the rows has not returned.
    Asked,
    /// The function has returned, and the rows are answered on another thread.
    Late,
    /// The library was told of a failure before the function returned.
    Told,
    Over,
}

struct Shared {
    pointer: *mut sys::trl_rollout,
    phase: RwLock<Phase>,
}

// The header: any thread.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Phase> {
        self.phase.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Phase> {
        self.phase.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rows of a rollout. The function that gets it answers before it returns, or moves it to another thread, which
/// answers later: the rows are answered when the rollout is dropped, wherever that is. One that is dropped by a panic
/// of such a thread has failed.
pub struct Rollout(Arc<Shared>);

impl Rollout {
    pub fn len(&self) -> usize {
        self.with(|rollout| Ok(unsafe { sys::trl_rollout_count(rollout) })).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is known of a row, as a JSON object.
    pub fn row(&self, index: usize) -> Result<String> {
        self.with(|rollout| ask_text(|out, error| unsafe { sys::trl_rollout_get(rollout, index, out, error) }))
    }

    /// What is known of each row.
    pub fn rows(&self) -> impl Iterator<Item = Result<String>> + '_ {
        (0..self.len()).map(move |index| self.row(index))
    }

    /// Sets the reward of a row; `None`: the function does not score this completion.
    pub fn set_reward(&self, index: usize, reward: impl Into<Option<f64>>) -> Result<()> {
        let reward = reward.into().unwrap_or(f64::NAN);
        self.set(|rollout, error| unsafe { sys::trl_rollout_set_reward(rollout, index, reward, error) })
    }

    /// Sets the completion of a row. `log_probs` and `written` have a value for each id, if they are given; `columns`
    /// is a JSON object.
    pub fn set_completion<'a>(
        &self,
        index: usize,
        ids: &[i32],
        log_probs: impl Into<Option<&'a [f32]>>,
        written: impl Into<Option<&'a [bool]>>,
        columns: impl Into<Option<&'a str>>,
    ) -> Result<()> {
        let (log_probs, written, count) = (log_probs.into(), written.into(), ids.len());
        for length in [log_probs.map(<[f32]>::len), written.map(<[bool]>::len)].into_iter().flatten() {
            if length != count {
                let message = format!("log_probs and written have one value for each of the {count} ids, not {length}");
                return Err(Error::new(Status::E_INVALID_ARGUMENT, message));
            }
        }
        let log_probs = log_probs.map_or(ptr::null(), <[f32]>::as_ptr);
        let written = written.map_or(ptr::null(), |written| written.as_ptr().cast());
        let columns = columns.into().map(c_text).transpose()?;
        self.set(|rollout, error| unsafe {
            let (ids, columns) = (ids.as_ptr(), pointer_of(&columns));
            sys::trl_rollout_set_completion(rollout, index, ids, count, log_probs, written, columns, error)
        })
    }

    /// Sets a named value of a row, which is written as JSON.
    pub fn set_value(&self, index: usize, name: &str, json: &str) -> Result<()> {
        let (name, json) = (c_text(name)?, c_text(json)?);
        self.set(|rollout, error| unsafe {
            sys::trl_rollout_set_value(rollout, index, name.as_ptr(), json.as_ptr(), error)
        })
    }

    /// Adds a value to the metrics of the step.
    pub fn log(&self, name: &str, value: f64) -> Result<()> {
        let name = c_text(name)?;
        self.set(|rollout, error| unsafe { sys::trl_rollout_log(rollout, name.as_ptr(), value, error) })
    }

    /// Ends the rollout, as dropping it does.
    pub fn finish(self) -> Result<()> {
        self.end(None)
    }

    /// Ends the rollout with a failure, whose reason is that of the step's error.
    pub fn fail(self, reason: &str) -> Result<()> {
        self.end(Some(reason))
    }

    /// Uses the rows as long as they are there.
    fn with<T>(&self, function: impl FnOnce(*mut sys::trl_rollout) -> Result<T>) -> Result<T> {
        let phase = self.0.read();
        match *phase {
            Phase::Asked | Phase::Late => function(self.0.pointer),
            Phase::Told | Phase::Over => Err(Error::new(Status::E_INVALID_ARGUMENT, "this rollout is over")),
        }
    }

    fn set(
        &self,
        function: impl FnOnce(*mut sys::trl_rollout, *mut *mut sys::trl_error) -> sys::trl_status,
    ) -> Result<()> {
        self.with(|rollout| call(|error| function(rollout, error)).map(drop))
    }

    fn end(&self, reason: Option<&str>) -> Result<()> {
        let reason = reason.map(c_text).transpose()?;
        let mut phase = self.0.write();
        let late = match *phase {
            Phase::Asked => false,
            Phase::Late => true,
            Phase::Told | Phase::Over => return Ok(()),
        };
        *phase = Phase::Over;
        if late || reason.is_some() {
            call(|error| unsafe { sys::trl_rollout_finish(self.0.pointer, pointer_of(&reason), error) })?;
            *phase = if late { Phase::Over } else { Phase::Told };
        }
        Ok(())
    }
}

impl Drop for Rollout {
    fn drop(&mut self) {
        let _ = self.end(thread::panicking().then_some("a thread of the host has panicked"));
    }
}

/// A function of rollouts. The library owns it, and lets go of it with the last user of the trainer, which may be a
/// generator that the function itself owns: so the trainer takes it away when it is dropped.
pub(crate) type Function<F> = Arc<Mutex<Option<F>>>;

pub(crate) trait Held: Send + Sync {
    fn release(&self);
}

impl<F: Send> Held for Mutex<Option<F>> {
    fn release(&self) {
        let function = self.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(function); // the lock is free again
    }
}

/// Gives the rows to the function that the library was given. Returns the answer for the library, or how the function
/// failed and whether the library was told of that.
unsafe fn ask<F, E>(user_data: *mut c_void, pointer: *mut sys::trl_rollout) -> std::result::Result<i32, (HostError, bool)>
where
    F: FnMut(Rollout) -> std::result::Result<(), E>,
    E: Into<HostError>,
{
    let function = &*user_data.cast::<Function<F>>();
    let shared = Arc::new(Shared { pointer, phase: RwLock::new(Phase::Asked) });
    let rollout = Rollout(shared.clone());
    let result = catch_unwind(AssertUnwindSafe(|| {
        exclusively(function, |function| match function {
            Some(function) => function(rollout).map_err(Into::into),
            None => Err(Error::new(Status::E_INVALID_ARGUMENT, "this trainer is gone").into()),
        })
    }));
    let mut phase = shared.write();
    let told = *phase == Phase::Told;
    let answer = match *phase {
        Phase::Asked | Phase::Told => sys::TRL_LATER,
        Phase::Late | Phase::Over => sys::TRL_OK,
    };
    let answered = matches!(result, Ok(Ok(())));
    *phase = if answered && *phase == Phase::Asked { Phase::Late } else { Phase::Over };
    drop(phase);
    match result {
        Ok(result) => result.map(|()| answer).map_err(|error| (error, told)),
        Err(payload) => resume_unwind(payload),
    }
}

pub(crate) unsafe extern "C" fn answer<F, E>(user_data: *mut c_void, pointer: *mut sys::trl_rollout) -> i32
where
    F: FnMut(Rollout) -> std::result::Result<(), E>,
    E: Into<HostError>,
{
    guard(|| ask::<F, E>(user_data, pointer).map_err(|(error, _)| error))
}

/// The same for a reward: the library is told of its error, and decides whether that ends the call.
pub(crate) unsafe extern "C" fn answer_reward<F, E>(user_data: *mut c_void, pointer: *mut sys::trl_rollout) -> i32
where
    F: FnMut(Rollout) -> std::result::Result<(), E>,
    E: Into<HostError>,
{
    guard(|| {
        ask::<F, E>(user_data, pointer).or_else(|(error, told)| {
            if !told {
                let reason = c_text(&error.to_string().replace('\0', " "))?;
                if call(|out| sys::trl_rollout_finish(pointer, reason.as_ptr(), out)).is_err() {
                    return Err(error);
                }
            }
            reward_failed(error);
            Ok(sys::TRL_LATER)
        })
    })
}
