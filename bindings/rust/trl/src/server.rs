//! A server of models over HTTP, by libtrl_serve.so.

use crate::call::{ask_text, c_path, c_text, call, pointer_of};
use crate::config;
use crate::handle::{Handle, Object};
use crate::runtime::pointer_of_runtime;
use crate::{Config, Generator, Model, Result, Runtime, Status, Tokenizer, Trainer};
use std::ffi::CString;
use std::path::Path;
use std::ptr;
use std::time::Duration;
use trl_sys as sys;

impl Object for sys::trl_server {
    unsafe fn destroy(object: *mut Self) {
        sys::trl_server_destroy(object)
    }
}

/// Serves models by the protocols of OpenAI, vLLM and TRL, on threads of its own. Dropping it stops it without time for
/// the requests that run; `stop` gives them some. No closure runs on its threads: log lines wait for a call.
pub struct Server {
    handle: Handle<sys::trl_server>,
}

fn optional(text: Option<&str>) -> Result<Option<CString>> {
    text.map(c_text).transpose()
}

/// Below 0: the library's own.
fn seconds(time: Option<Duration>) -> f64 {
    time.map_or(-1.0, |time| time.as_secs_f64())
}

fn tokenizer_of(tokenizer: Option<&Tokenizer>) -> *mut sys::trl_tokenizer {
    tokenizer.map_or(ptr::null_mut(), |tokenizer| tokenizer.handle.get())
}

impl Server {
    /// Makes a server that does not run yet.
    pub fn new<'a>(options: impl Into<Option<&'a Config>>, runtime: impl Into<Option<&'a Runtime>>) -> Result<Server> {
        let (options, runtime) = (config::pointer_of(options.into()), pointer_of_runtime(runtime.into()));
        let handle = Handle::create(|out, error| unsafe { sys::trl_server_create(runtime, options, out, error) })?;
        Ok(Server { handle })
    }

    /// Adds a model, which requests name, with its own tokenizer or another one.
    pub fn add_model<'a>(
        &mut self,
        name: &str,
        model: &Model,
        tokenizer: impl Into<Option<&'a Tokenizer>>,
        options: impl Into<Option<&'a Config>>,
    ) -> Result<()> {
        let (name, model, tokenizer) = (c_text(name)?, model.handle.get(), tokenizer_of(tokenizer.into()));
        let options = config::pointer_of(options.into());
        call(|error| unsafe {
            sys::trl_server_add_model(self.handle.get(), name.as_ptr(), model, tokenizer, options, error)
        })?;
        Ok(())
    }

    /// Adds a generator, which is the server's from now on.
    pub fn add_generator<'a>(
        &mut self,
        name: &str,
        generator: Generator,
        tokenizer: &Tokenizer,
        options: impl Into<Option<&'a Config>>,
    ) -> Result<()> {
        let (name, options) = (c_text(name)?, config::pointer_of(options.into()));
        let (generator, tokenizer) = (generator.handle.get(), tokenizer.handle.get());
        call(|error| unsafe {
            sys::trl_server_add_generator(self.handle.get(), name.as_ptr(), generator, tokenizer, options, error)
        })?;
        Ok(())
    }

    /// Adds the model of a trainer: requests are answered with what it trains, with serve_share while it trains.
    pub fn add_trainer<'a>(
        &mut self,
        name: &str,
        trainer: &Trainer,
        options: impl Into<Option<&'a Config>>,
    ) -> Result<()> {
        let (name, options) = (c_text(name)?, config::pointer_of(options.into()));
        call(|error| unsafe {
            sys::trl_server_add_trainer(self.handle.get(), name.as_ptr(), trainer.pointer(), options, error)
        })?;
        Ok(())
    }

    /// Listens, and starts the threads of the server.
    pub fn start(&mut self) -> Result<()> {
        call(|error| unsafe { sys::trl_server_start(self.handle.get(), error) })?;
        Ok(())
    }

    /// Stops it when the requests that run have ended, at most after this time; `None`: serve.drain_timeout.
    pub fn stop(&self, time: impl Into<Option<Duration>>) -> Result<()> {
        let time = seconds(time.into());
        call(|error| unsafe { sys::trl_server_stop(self.handle.get(), time, error) })?;
        Ok(())
    }

    /// Waits until it has stopped, at most this time, and tells whether it has. Its error is that of a thread of the
    /// server that failed. Log lines come meanwhile.
    pub fn wait(&self, time: impl Into<Option<Duration>>) -> Result<bool> {
        let time = seconds(time.into());
        Ok(call(|error| unsafe { sys::trl_server_wait(self.handle.get(), time, error) })? != Status::LATER)
    }

    /// Asks it to stop, and returns at once; a second time: without time for requests.
    pub fn cancel(&self) {
        unsafe { sys::trl_server_cancel(self.handle.get()) }
    }

    /// Its state, address and port, and its models with their adapters, as a JSON object.
    pub fn describe(&self) -> Result<String> {
        ask_text(|out, error| unsafe { sys::trl_server_describe(self.handle.get(), out, error) })
    }

    /// Gives a model (`None`: the first one) an adapter of this name, or a new version of one, from a directory.
    /// Requests that run keep the version that they began with.
    pub fn set_adapter<'a>(&self, model: impl Into<Option<&'a str>>, name: &str, path: impl AsRef<Path>) -> Result<()> {
        self.change_adapter(model.into(), name, Some(c_path(path.as_ref())?))
    }

    /// Takes an adapter from a model.
    pub fn remove_adapter<'a>(&self, model: impl Into<Option<&'a str>>, name: &str) -> Result<()> {
        self.change_adapter(model.into(), name, None)
    }

    fn change_adapter(&self, model: Option<&str>, name: &str, path: Option<CString>) -> Result<()> {
        let (model, name) = (optional(model)?, c_text(name)?);
        let (model, path) = (pointer_of(&model), pointer_of(&path));
        call(|error| unsafe { sys::trl_server_set_adapter(self.handle.get(), model, name.as_ptr(), path, error) })?;
        Ok(())
    }

    /// Puts a model (`None`: the first one) to sleep, as deep as level 1 or 2: requests are refused until `wake_up`.
    /// `mode` says what becomes of those that run: "abort" (`None` is the same), "wait" or "keep".
    pub fn sleep<'a>(
        &self,
        model: impl Into<Option<&'a str>>,
        level: i32,
        mode: impl Into<Option<&'a str>>,
    ) -> Result<()> {
        let (model, mode) = (optional(model.into())?, optional(mode.into())?);
        let (model, mode) = (pointer_of(&model), pointer_of(&mode));
        call(|error| unsafe { sys::trl_server_sleep(self.handle.get(), model, level, mode, error) })?;
        Ok(())
    }

    /// Wakes a model. `tags` is what is asked for again, "weights" or "kv_cache"; `None`: all.
    pub fn wake_up<'a>(&self, model: impl Into<Option<&'a str>>, tags: impl Into<Option<&'a str>>) -> Result<()> {
        let (model, tags) = (optional(model.into())?, optional(tags.into())?);
        let (model, tags) = (pointer_of(&model), pointer_of(&tags));
        call(|error| unsafe { sys::trl_server_wake_up(self.handle.get(), model, tags, error) })?;
        Ok(())
    }
}
