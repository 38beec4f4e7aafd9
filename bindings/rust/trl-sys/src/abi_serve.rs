//! The C ABI of libtrl_serve.so, made from include/trl/serve.h by bindings/generate.py.

use crate::abi::*;
use std::marker::{PhantomData, PhantomPinned};
use std::os::raw::c_char;

#[repr(C)]
pub struct trl_server {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

extern "C" {
    /// Creates a server. Nothing is opened, and no thread starts, before trl_server_start.
    ///
    /// Contract: caller owns; any thread; does not block; no callbacks; after an error out_server is NULL.
    pub fn trl_server_create(runtime: *mut trl_runtime, options: *const trl_config, out_server: *mut *mut trl_server, error: *mut *mut trl_error) -> trl_status;

    /// Adds a model, which requests name; those that name none get the first one.
    ///
    /// Contract: exclusive; blocks on the tokenizer's files; log; after an error the server is as before.
    pub fn trl_server_add_model(server: *mut trl_server, name: *const c_char, model: *mut trl_model, tokenizer: *mut trl_tokenizer, options: *const trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Adds a generator, as trl_server_add_model adds a model. From trl_server_start to the end of trl_server_stop it is the server's: the host makes no call with it.
    ///
    /// Contract: exclusive; does not block; no callbacks; after an error the server is as before.
    pub fn trl_server_add_generator(server: *mut trl_server, name: *const c_char, generator: *mut trl_generator, tokenizer: *mut trl_tokenizer, options: *const trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Adds the model of a trainer, as trl_server_add_model adds a model: requests are answered with the adapter or the weights that it trains. With `serve_share` they are answered while it trains, and each choice that is over has a member `weights` {adapter, version, last_version}: the steps whose adapter it began and ended with (`serve_swap`). Without, tokens come between two steps. A pause of the trainer holds them, too; a server that stops meanwhile waits until it is resumed.
    ///
    /// Contract: exclusive; does not block; log; after an error the server is as before.
    pub fn trl_server_add_trainer(server: *mut trl_server, name: *const c_char, trainer: *mut trl_trainer, options: *const trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Listens on `serve.host` and `serve.port`, and starts the threads of the server: one for connections, two for texts, and one for each model. They take no signals, and their names begin with "trl-serve-".
    ///
    /// Contract: exclusive; short; log (a warning if others can reach it and there is no key); after an error no thread runs and nothing is open.
    pub fn trl_server_start(server: *mut trl_server, error: *mut *mut trl_error) -> trl_status;

    /// Stops a server: new requests are refused (503), those that run may end, the others are cancelled; then all connections are closed and all threads have ended.
    ///
    /// Contract: any thread; blocks until the threads have ended; log.
    pub fn trl_server_stop(server: *mut trl_server, seconds: f64, error: *mut *mut trl_error) -> trl_status;

    /// Waits until a server has stopped, or a thread of it has failed.
    ///
    /// Contract: any thread; blocks; log (all lines that waited).
    pub fn trl_server_wait(server: *mut trl_server, seconds: f64, error: *mut *mut trl_error) -> trl_status;

    /// Asks a server to stop as trl_server_stop does with `serve.drain_timeout`; a second time: at once.
    ///
    /// Contract: signal-safe; never blocks; no callbacks; cannot fail.
    pub fn trl_server_cancel(server: *mut trl_server);

    /// Describes a server as a JSON object: state (stopped, running, draining), address, port, connections, and models, an array of {name, state (awake, asleep), weights_version, trained_version (the newest step whose adapter a trainer's model has answered with; null), adapters (name, version), waiting, running, requests, tokens}. Keys are not in it.
    ///
    /// Contract: borrowed; any thread, also in callbacks; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_server_describe(server: *mut trl_server, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Gives a model an adapter, as a request to /v1/load_lora_adapter does; of a name that it has, a new version. It is swapped in between two tokens: requests that have come keep the version that they began with, and a version is taken out of the model when the last of them has ended.
    ///
    /// Contract: any thread; blocks on the files and for a token; log; after an error the old version stays.
    pub fn trl_server_set_adapter(server: *mut trl_server, model: *const c_char, name: *const c_char, path: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Puts a model to sleep: requests are refused (503) until trl_server_wake_up. The memory of keys and values goes back to the system. Weights stay where they are, since they are the host's: level 2 means that requests wait until they have been asked for again, too.
    ///
    /// Contract: any thread; blocks for a token, or until requests have ended; no callbacks.
    pub fn trl_server_sleep(server: *mut trl_server, model: *const c_char, level: i32, mode: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Wakes a model. It answers requests again once all that was given back has been asked for: "kv_cache" after level 1, both after level 2.
    ///
    /// Contract: any thread; blocks for a token; no callbacks.
    pub fn trl_server_wake_up(server: *mut trl_server, model: *const c_char, tags: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Frees a server; one that runs is stopped first, without time for its requests.
    ///
    /// Contract: exclusive, last use; waits for its threads; no callbacks; cannot fail.
    pub fn trl_server_destroy(server: *mut trl_server);
}
