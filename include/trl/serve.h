/*
 * libtrl_serve: serves models over HTTP, by the protocols of OpenAI, vLLM and TRL. Apache-2.0.
 *
 * The conventions of trl/trl.h hold, and its words in a `Contract:` line. No function of the host runs on a
 * thread of the server: what the server has to say waits until the host is inside a call that has the log of
 * the server's runtime.
 *
 *   trl_server* server = NULL;
 *   if (trl_server_create(NULL, NULL, &server, &error) == TRL_OK &&
 *       trl_server_add_model(server, "tiny", model, NULL, NULL, &error) == TRL_OK &&
 *       trl_server_start(server, &error) == TRL_OK)
 *     trl_server_wait(server, -1, &error);
 *   trl_server_destroy(server);
 */
#ifndef TRL_SERVE_H
#define TRL_SERVE_H

#include <trl/trl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trl_server trl_server;

/**
 * Creates a server. Nothing is opened, and no thread starts, before trl_server_start.
 *
 * Reads the group `serve` of options (serve.host, serve.port, serve.api_key, serve.max_body_bytes ...), and
 * the group `generate`, whose values hold for requests that do not give others.
 *
 * @param runtime [in] nullable; kept alive; of the log.
 * @param options [in] nullable; copied.
 * @param out_server [out] owned by the caller, freed by trl_server_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_UNSUPPORTED beside a libtrl.so of another version.
 * Contract: caller owns; any thread; does not block; no callbacks; after an error out_server is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_server_create(trl_runtime* runtime, const trl_config* options, trl_server** out_server,
                                     trl_error** error) TRL_NOEXCEPT;

/**
 * Adds a model, which requests name; those that name none get the first one.
 *
 * @param server [in] not started.
 * @param name [in] of the model in requests; any text of up to 256 bytes. `serve.model_names` adds others.
 * @param model [in] kept alive; a language model. While the server runs, a call of the host with it that
 * needs the model for itself returns TRL_E_BUSY, as beside any other call; generators take turns.
 * @param tokenizer [in] nullable: the model's own; kept alive.
 * @param options [in] nullable; over those of the server, for this model: `serve.max_num_seqs`,
 *   `serve.max_model_len`, `serve.enable_lora`, `serve.adapter_dir`, `serve.max_loras`,
 * `serve.max_lora_rank`, `serve.enable_sleep_mode`, `generate.*`. The adapters of `serve.lora_modules` are
 * loaded for the first model.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for a name that is taken and for a server that has started,
 * TRL_E_UNSUPPORTED for a reward model, TRL_E_NOT_FOUND, TRL_E_FORMAT, TRL_E_INVALID_CONFIG.
 * Contract: exclusive; blocks on the tokenizer's files; log; after an error the server is as before.
 * @since 0.1
 */
TRL_API trl_status trl_server_add_model(trl_server* server, const char* name, trl_model* model,
                                        trl_tokenizer* tokenizer, const trl_config* options,
                                        trl_error** error) TRL_NOEXCEPT;

/**
 * Adds a generator, as trl_server_add_model adds a model. From trl_server_start to the end of trl_server_stop
 * it is the server's: the host makes no call with it.
 *
 * @param server [in] not started.
 * @param name [in] of the model in requests.
 * @param generator [in] kept alive; without completions.
 * @param tokenizer [in] the generator's; kept alive.
 * @param options [in] nullable; as of trl_server_add_model.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT, TRL_E_INVALID_CONFIG.
 * Contract: exclusive; does not block; no callbacks; after an error the server is as before.
 * @since 0.1
 */
TRL_API trl_status trl_server_add_generator(trl_server* server, const char* name, trl_generator* generator,
                                            trl_tokenizer* tokenizer, const trl_config* options,
                                            trl_error** error) TRL_NOEXCEPT;

/**
 * Adds the model of a trainer, as trl_server_add_model adds a model: requests are answered with the adapter
 * or the weights that it trains. With `serve_share` they are answered while it trains, and each choice that
 * is over has a member `weights` {adapter, version, last_version}: the steps whose adapter it began and ended
 * with (`serve_swap`). Without, tokens come between two steps. A pause of the trainer holds them, too; a
 * server that stops meanwhile waits until it is resumed.
 *
 * @param server [in] not started.
 * @param name [in] of the model in requests.
 * @param trainer [in] kept alive, also when it is destroyed; of a language model.
 * @param options [in] nullable; as of trl_server_add_model.
 * @param error [out] nullable; owned by the caller.
 * @return as trl_server_add_model.
 * Contract: exclusive; does not block; log; after an error the server is as before.
 * @since 0.1
 */
TRL_API trl_status trl_server_add_trainer(trl_server* server, const char* name, trl_trainer* trainer,
                                          const trl_config* options, trl_error** error) TRL_NOEXCEPT;

/**
 * Listens on `serve.host` and `serve.port`, and starts the threads of the server: one for connections, two
 * for texts, and one for each model. They take no signals, and their names begin with "trl-serve-".
 *
 * @param server [in] with a model at least; may have been stopped before.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_IO naming the address and the reason (in use, not permitted, not of this machine),
 * TRL_E_BUSY if it runs, TRL_E_INVALID_ARGUMENT without a model, TRL_E_OUT_OF_MEMORY.
 * Contract: exclusive; short; log (a warning if others can reach it and there is no key); after an error no
 * thread runs and nothing is open.
 * @since 0.1
 */
TRL_API trl_status trl_server_start(trl_server* server, trl_error** error) TRL_NOEXCEPT;

/**
 * Stops a server: new requests are refused (503), those that run may end, the others are cancelled; then all
 * connections are closed and all threads have ended.
 *
 * @param server [in] nothing happens if it does not run.
 * @param seconds [in] for requests to end; 0: none; below 0: `serve.drain_timeout`.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_BUSY while another thread stops it.
 * Contract: any thread; blocks until the threads have ended; log.
 * @since 0.1
 */
TRL_API trl_status trl_server_stop(trl_server* server, double seconds, trl_error** error) TRL_NOEXCEPT;

/**
 * Waits until a server has stopped, or a thread of it has failed.
 *
 * @param server [in] not changed.
 * @param seconds [in] at most; below 0: any time.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK: it does not run; TRL_LATER: it still does; TRL_E_CANCELLED (trl_runtime_cancel); if a
 * thread of the server has failed, the status of its error.
 * Contract: any thread; blocks; log (all lines that waited).
 * @since 0.1
 */
TRL_API trl_status trl_server_wait(trl_server* server, double seconds, trl_error** error) TRL_NOEXCEPT;

/**
 * Asks a server to stop as trl_server_stop does with `serve.drain_timeout`; a second time: at once.
 *
 * @param server [in] nullable; must not be destroyed meanwhile.
 * Contract: signal-safe; never blocks; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_server_cancel(trl_server* server) TRL_NOEXCEPT;

/**
 * Describes a server as a JSON object: state (stopped, running, draining), address, port, connections, and
 * models, an array of {name, state (awake, asleep), weights_version, trained_version (the newest step whose
 * adapter a trainer's model has answered with; null), adapters (name, version), waiting, running, requests,
 * tokens}. Keys are not in it.
 *
 * @param server [in] not changed.
 * @param out_json [out] borrowed until the same thread describes this server again, or it is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: borrowed; any thread, also in callbacks; does not block; no callbacks; after an error out_json is
 * NULL.
 * @since 0.1
 */
TRL_API trl_status trl_server_describe(trl_server* server, const char** out_json,
                                       trl_error** error) TRL_NOEXCEPT;

/**
 * Gives a model an adapter, as a request to /v1/load_lora_adapter does; of a name that it has, a new version.
 * It is swapped in between two tokens: requests that have come keep the version that they began with, and a
 * version is taken out of the model when the last of them has ended.
 *
 * @param server [in] may run.
 * @param model [in] nullable: the first one; its name.
 * @param name [in] of the adapter in requests, up to 256 bytes.
 * @param path [in] nullable: removes it. Its directory, anywhere; of any rank.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_FORMAT naming the first tensor that does not belong to this model,
 * TRL_E_INVALID_ARGUMENT for the name of a model, more adapters than `serve.max_loras` and the model of a
 * generator, TRL_E_INVALID_CONFIG, TRL_E_UNSUPPORTED, TRL_E_BUSY while the host uses the model for long or
 * the server stops.
 * Contract: any thread; blocks on the files and for a token; log; after an error the old
 * version stays.
 * @since 0.1
 */
TRL_API trl_status trl_server_set_adapter(trl_server* server, const char* model, const char* name,
                                          const char* path, trl_error** error) TRL_NOEXCEPT;

/**
 * Puts a model to sleep: requests are refused (503) until trl_server_wake_up. The memory of keys and values
 * goes back to the system. Weights stay where they are, since they are the host's: level 2 means that
 * requests wait until they have been asked for again, too.
 *
 * @param server [in] may run.
 * @param model [in] nullable: the first one; its name.
 * @param level [in] 1 or 2.
 * @param mode [in] nullable: "abort". What becomes of requests that run: "abort" ends them, "wait" lets them
 *   end, "keep" (level 1 alone) holds them until the model is awake.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, also if it sleeps as deep already; TRL_E_NOT_FOUND, TRL_E_INVALID_ARGUMENT, TRL_E_BUSY if
 * it is woken meanwhile, or the server stops.
 * Contract: any thread; blocks for a token, or until requests
 * have ended; no callbacks.
 * @since 0.1
 */
TRL_API trl_status trl_server_sleep(trl_server* server, const char* model, int32_t level, const char* mode,
                                    trl_error** error) TRL_NOEXCEPT;

/**
 * Wakes a model. It answers requests again once all that was given back has been asked for: "kv_cache" after
 * level 1, both after level 2.
 *
 * @param server [in] may run.
 * @param model [in] nullable: the first one; its name.
 * @param tags [in] nullable: all; "weights", "kv_cache", or both with a comma between.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, also if it is awake; TRL_E_NOT_FOUND, TRL_E_INVALID_ARGUMENT for another tag, TRL_E_BUSY if
 * the server stops.
 * Contract: any thread; blocks for a token; no callbacks.
 * @since 0.1
 */
TRL_API trl_status trl_server_wake_up(trl_server* server, const char* model, const char* tags,
                                      trl_error** error) TRL_NOEXCEPT;

/**
 * Frees a server; one that runs is stopped first, without time for its requests.
 *
 * @param server [in] nullable; consumed.
 * Contract: exclusive, last use; waits for its threads; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_server_destroy(trl_server* server) TRL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* TRL_SERVE_H */
