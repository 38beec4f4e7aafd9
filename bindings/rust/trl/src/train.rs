//! Trainers, what they tell, and what they ask the host for.

use crate::call::{ask_text, borrowed, c_path, c_text, call, fill, forget, guard, owned, text_or_none, Reply};
use crate::config;
use crate::data::pointer_of_dataset;
use crate::error::HostError;
use crate::handle::Handle;
use crate::rollout::{answer, answer_reward, Function, Held};
use crate::runtime::pointer_of_runtime;
use crate::{Config, Dataset, Error, EventKind, Generator, Model, Result, Rollout, Runtime, Status};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::raw::{c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use trl_sys as sys;

/// Numbers by name, which the library owns. Those of a step or an evaluation end with the next call on their object:
///
/// ```compile_fail
/// # fn steps(config: trl::Config, rows: trl::Dataset) -> trl::Result<()> {
/// let mut trainer = trl::Trainer::new(&config, &rows, None, None)?;
/// let metrics = trainer.step()?;
/// trainer.step()?;
/// println!("{metrics:?}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Metrics<'a> {
    pointer: *const sys::trl_metrics,
    _borrowed: PhantomData<&'a sys::trl_metrics>,
}

// The header: concurrent on const.
unsafe impl Send for Metrics<'_> {}
unsafe impl Sync for Metrics<'_> {}

impl<'a> Metrics<'a> {
    /// One number, such as "loss".
    pub fn get(&self, name: &str) -> Option<f64> {
        let (name, mut value) = (c_text(name).ok()?, 0.0);
        let status = unsafe { sys::trl_metrics_get(self.pointer, name.as_ptr(), &mut value) };
        (status == sys::TRL_OK).then_some(value)
    }

    /// A text, such as the path of a save.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let name = c_text(name).ok()?;
        unsafe { text_or_none(sys::trl_metrics_text(self.pointer, name.as_ptr())) }
    }

    /// The names and numbers, in the order of TRL's records.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, f64)> {
        let pointer = self.pointer;
        let next = move |previous| {
            let name = unsafe { sys::trl_metrics_next(pointer, previous) };
            (!name.is_null()).then_some(name)
        };
        std::iter::successors(next(ptr::null()), move |&name| next(name)).map(move |name| unsafe {
            let mut value = 0.0;
            sys::trl_metrics_get(pointer, name, &mut value);
            (text_or_none(name).unwrap_or_default(), value)
        })
    }
}

impl fmt::Debug for Metrics<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}

/// What happens in a run: a kind, and metrics with `step`, `max_steps`, `epoch` and those of the kind.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    kind: EventKind,
    metrics: Metrics<'a>,
}

impl Event<'_> {
    pub fn kind(&self) -> EventKind {
        self.kind
    }
}

impl<'a> Deref for Event<'a> {
    type Target = Metrics<'a>;
    fn deref(&self) -> &Metrics<'a> {
        &self.metrics
    }
}

/// The metrics that a function gives by its last parameter but one, and its status.
fn measure<'a>(
    function: impl FnOnce(*mut *const sys::trl_metrics, *mut *mut sys::trl_error) -> sys::trl_status,
) -> Result<(Metrics<'a>, Status)> {
    let mut pointer = ptr::null();
    let status = call(|error| function(&mut pointer, error))?;
    Ok((Metrics { pointer, _borrowed: PhantomData }, status))
}

/// What a trainer is told and asked from any thread, also while it is in a call, and within functions that it calls.
/// Once the trainer is gone, `cancel`, `pause` and `resume` do nothing, and the others fail.
#[derive(Clone)]
pub struct Control(Arc<RwLock<Handle<sys::trl_trainer>>>);

/// A run of the method that its configuration names. It has the methods of [`Control`], too.
pub struct Trainer {
    shared: Control,
    functions: Vec<Weak<dyn Held>>,
}

impl Control {
    /// Ends the call that runs on the trainer, or else the next one, with `E_CANCELLED`.
    pub fn cancel(&self) {
        self.with(sys::trl_trainer_cancel);
    }

    /// Holds the call that runs on the trainer, or else the next one, until `resume`.
    pub fn pause(&self) {
        self.with(sys::trl_trainer_pause);
    }

    pub fn resume(&self) {
        self.with(sys::trl_trainer_resume);
    }

    fn with(&self, function: unsafe extern "C" fn(*mut sys::trl_trainer)) {
        if let Ok(handle) = self.0.try_read() {
            unsafe { function(handle.get()) } // NULL if it is gone
        }
    }

    fn ask<T>(&self, function: impl FnOnce(*mut sys::trl_trainer) -> Result<T>) -> Result<T> {
        match self.0.try_read() {
            Ok(handle) if !handle.get().is_null() => function(handle.get()),
            _ => Err(Error::new(Status::E_INVALID_ARGUMENT, "this trainer is gone")),
        }
    }

    /// Sets the learning rate of the next steps; `None`: that of the schedule again.
    pub fn set_learning_rate(&self, rate: impl Into<Option<f64>>) -> Result<()> {
        let rate = rate.into().unwrap_or(f64::NAN);
        self.ask(|trainer| call(|error| unsafe { sys::trl_trainer_set_learning_rate(trainer, rate, error) }).map(drop))
    }

    /// The state of the training as in trainer_state.json: while a call trains, after the last step that is done.
    pub fn describe(&self) -> Result<String> {
        self.ask(|trainer| ask_text(|out, error| unsafe { sys::trl_trainer_describe(trainer, out, error) }))
    }

    /// Integers by a name: global_step, max_steps, vocab_size, parameter_count, trained_parameter_count, eos_token_ids.
    pub fn integers(&self, name: &str) -> Result<Vec<i64>> {
        let name = c_text(name)?;
        self.ask(|trainer| {
            fill(1, |start, room, count, error| unsafe {
                sys::trl_trainer_get_integers(trainer, name.as_ptr(), start, room, count, error)
            })
        })
    }

    /// The model that is trained: it sees every step at once. Calls with it are calls on the trainer.
    pub fn model(&self) -> Result<Model> {
        self.ask(|trainer| {
            let handle = Handle::create(|out, error| unsafe { sys::trl_model_from_trainer(trainer, out, error) })?;
            Ok(Model { handle })
        })
    }

    /// A generator with that model.
    pub fn generator(&self) -> Result<Generator> {
        self.model()?.generator(None)
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        let mut handle = self.shared.0.write().unwrap_or_else(PoisonError::into_inner);
        let gone = std::mem::replace(&mut *handle, Handle::null());
        drop(handle); // what is freed with it may use a `Control`
        drop(gone);
        self.functions.iter().filter_map(Weak::upgrade).for_each(|function| function.release());
    }
}

impl Deref for Trainer {
    type Target = Control;
    fn deref(&self) -> &Control {
        &self.shared
    }
}

impl Trainer {
    /// Reads and prepares the rows, opens the model, and checks everything.
    pub fn new<'a>(
        config: &Config,
        train: &Dataset,
        evaluation: impl Into<Option<&'a Dataset>>,
        runtime: impl Into<Option<&'a Runtime>>,
    ) -> Result<Trainer> {
        let (config, runtime) = (config::pointer_of(Some(config)), pointer_of_runtime(runtime.into()));
        let (train, evaluation) = (train.handle.get(), pointer_of_dataset(evaluation.into()));
        let handle = Handle::create(|out, error| unsafe {
            sys::trl_trainer_create(runtime, config, train, evaluation, out, error)
        })?;
        Ok(Trainer { shared: Control(Arc::new(RwLock::new(handle))), functions: Vec::new() })
    }

    pub(crate) fn pointer(&self) -> *mut sys::trl_trainer {
        self.shared.0.read().unwrap_or_else(PoisonError::into_inner).get()
    }

    /// Trains to the end, or until the function stops it; false if the run was complete before. The function may answer
    /// with [`Answer`](crate::Answer).
    pub fn train<F, R>(&mut self, mut on_event: F) -> Result<bool>
    where
        F: FnMut(Event<'_>) -> R,
        R: Reply,
    {
        let status = call(|error| unsafe {
            let function = Some(event::<F, R> as unsafe extern "C" fn(_, _, _) -> _);
            sys::trl_trainer_train(self.pointer(), function, borrowed(&mut on_event), error)
        })?;
        Ok(status != Status::END)
    }

    /// One optimizer step and its numbers; `None` when nothing is left.
    pub fn step(&mut self) -> Result<Option<Metrics<'_>>> {
        let (metrics, status) = measure(|out, error| unsafe { sys::trl_trainer_step(self.pointer(), out, error) })?;
        Ok((status != Status::END).then_some(metrics))
    }

    /// The first half of a step, after which gradients can be read, and its numbers; `None` when nothing is left.
    pub fn backward(&mut self) -> Result<Option<Metrics<'_>>> {
        let (metrics, status) = measure(|out, error| unsafe { sys::trl_trainer_backward(self.pointer(), out, error) })?;
        Ok((status != Status::END).then_some(metrics))
    }

    /// The second half of a step, which updates the weights if it is to `apply`, and the numbers of the step.
    pub fn update(&mut self, apply: bool) -> Result<Metrics<'_>> {
        let update = |out, error| unsafe { sys::trl_trainer_update(self.pointer(), apply.into(), out, error) };
        Ok(measure(update)?.0)
    }

    /// Evaluates on the evaluation rows, or on others.
    pub fn evaluate<'a>(&mut self, rows: impl Into<Option<&'a Dataset>>) -> Result<Metrics<'_>> {
        let rows = pointer_of_dataset(rows.into());
        Ok(measure(|out, error| unsafe { sys::trl_trainer_evaluate(self.pointer(), rows, out, error) })?.0)
    }

    /// Saves the model, or what save.kind says, into output_dir.
    pub fn save<'a>(&mut self, options: impl Into<Option<&'a Config>>) -> Result<()> {
        self.save_at(ptr::null(), options.into())
    }

    /// The same into a directory.
    pub fn save_to<'a>(&mut self, path: impl AsRef<Path>, options: impl Into<Option<&'a Config>>) -> Result<()> {
        self.save_at(c_path(path.as_ref())?.as_ptr(), options.into())
    }

    fn save_at(&mut self, path: *const c_char, options: Option<&Config>) -> Result<()> {
        call(|error| unsafe { sys::trl_trainer_save(self.pointer(), path, config::pointer_of(options), error) })?;
        Ok(())
    }

    /// Adds a function that rewards the rows of a rollout (`set_reward`).
    pub fn add_reward<F, E>(&mut self, name: &str, reward: F) -> Result<()>
    where
        F: FnMut(Rollout) -> std::result::Result<(), E> + Send + 'static,
        E: Into<HostError>,
    {
        let name = c_text(name)?;
        self.register(reward, answer_reward::<F, E>, |trainer, function, user_data, destroy, error| unsafe {
            sys::trl_trainer_add_reward(trainer, name.as_ptr(), function, user_data, destroy, error)
        })
    }

    /// Has a function write the completions of a rollout (`set_completion`), with a generator of this trainer if it
    /// owns one.
    pub fn set_rollout<F, E>(&mut self, rollout: F) -> Result<()>
    where
        F: FnMut(Rollout) -> std::result::Result<(), E> + Send + 'static,
        E: Into<HostError>,
    {
        self.register(rollout, answer::<F, E>, |trainer, function, user_data, destroy, error| unsafe {
            sys::trl_trainer_set_rollout(trainer, function, user_data, destroy, error)
        })
    }

    /// Has a function answer the tools that completions call (`set_value`).
    pub fn set_tools<F, E>(&mut self, tools: F) -> Result<()>
    where
        F: FnMut(Rollout) -> std::result::Result<(), E> + Send + 'static,
        E: Into<HostError>,
    {
        self.register(tools, answer::<F, E>, |trainer, function, user_data, destroy, error| unsafe {
            sys::trl_trainer_set_tools(trainer, function, user_data, destroy, error)
        })
    }

    /// Gives a function of rollouts to the library, which frees it.
    fn register<F>(
        &mut self,
        function: F,
        answer: unsafe extern "C" fn(*mut c_void, *mut sys::trl_rollout) -> i32,
        set: impl FnOnce(
            *mut sys::trl_trainer,
            sys::trl_rollout_fn,
            *mut c_void,
            sys::trl_destroy_fn,
            *mut *mut sys::trl_error,
        ) -> sys::trl_status,
    ) -> Result<()>
    where
        F: Send + 'static,
    {
        let function: Function<F> = Arc::new(Mutex::new(Some(function)));
        let held: Weak<Mutex<Option<F>>> = Arc::downgrade(&function);
        self.functions.push(held);
        call(|error| set(self.pointer(), Some(answer), owned(function), Some(forget::<Function<F>>), error))?;
        Ok(())
    }

    /// What other threads, and functions that run within its calls, control the trainer with.
    pub fn control(&self) -> Control {
        self.shared.clone()
    }
}

unsafe extern "C" fn event<F: FnMut(Event<'_>) -> R, R: Reply>(
    user_data: *mut c_void,
    kind: i32,
    metrics: *const sys::trl_metrics,
) -> i32 {
    guard(|| {
        let function = &mut *user_data.cast::<F>();
        let metrics = Metrics { pointer: metrics, _borrowed: PhantomData };
        function(Event { kind: EventKind(kind), metrics }).reply()
    })
}

/// What a run needs: numbers as a JSON object, and text for a terminal.
#[derive(Clone, Debug)]
pub struct Plan {
    pub json: String,
    pub text: String,
}

/// The memory, time and disk that a trainer of this configuration needs.
pub fn plan<'a>(
    config: &Config,
    train: impl Into<Option<&'a Dataset>>,
    runtime: impl Into<Option<&'a Runtime>>,
) -> Result<Plan> {
    let own; // owner of the texts until they are copied
    let runtime = match runtime.into() {
        Some(runtime) => runtime,
        None => {
            own = Runtime::new(None)?;
            &own
        }
    };
    let (runtime, config) = (pointer_of_runtime(Some(runtime)), config::pointer_of(Some(config)));
    let train = pointer_of_dataset(train.into());
    let (mut json, mut text) = (ptr::null(), ptr::null());
    call(|error| unsafe { sys::trl_trainer_plan(runtime, config, train, &mut json, &mut text, error) })?;
    let [json, text] = [json, text].map(|text| unsafe { text_or_none(text) }.unwrap_or_default().to_string());
    Ok(Plan { json, text })
}

/// Checks a run as a trainer does before it reads rows and weights, and creates nothing.
pub fn check<'a>(config: &Config, runtime: impl Into<Option<&'a Runtime>>) -> Result<()> {
    let (config, runtime) = (config::pointer_of(Some(config)), pointer_of_runtime(runtime.into()));
    call(|error| unsafe { sys::trl_trainer_check(runtime, config, error) })?;
    Ok(())
}

/// A model that is measured on rows, without a run.
pub struct Evaluator {
    handle: Handle<sys::trl_evaluator>,
}

impl Evaluator {
    pub fn new<'a>(config: &Config, runtime: impl Into<Option<&'a Runtime>>) -> Result<Evaluator> {
        let (config, runtime) = (config::pointer_of(Some(config)), pointer_of_runtime(runtime.into()));
        let handle = Handle::create(|out, error| unsafe { sys::trl_evaluator_create(runtime, config, out, error) })?;
        Ok(Evaluator { handle })
    }

    /// The numbers of an evaluation within a run, under the same names.
    pub fn evaluate(&mut self, rows: &Dataset) -> Result<Metrics<'_>> {
        let (evaluator, rows) = (self.handle.get(), rows.handle.get());
        Ok(measure(|out, error| unsafe { sys::trl_evaluator_evaluate(evaluator, rows, out, error) })?.0)
    }

    /// Completes sample_prompts: a JSON array of prompts and completions.
    pub fn complete(&mut self) -> Result<String> {
        ask_text(|out, error| unsafe { sys::trl_evaluator_complete(self.handle.get(), out, error) })
    }
}
