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
 * Reads the group `serve` of options (serve.host, serve.port, serve.api_key, serve.max_body_bytes ...), and the
 * group `generate`, whose values hold for requests that do not give others.
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
 * @param model [in] kept alive; a language model. While the server runs, a call of the host with it that needs
 *   the model for itself returns TRL_E_BUSY, as beside any other call; generators take turns.
 * @param tokenizer [in] nullable: the model's own; kept alive.
 * @param options [in] nullable; over those of the server, for this model: `serve.max_num_seqs`,
 *   `serve.max_model_len`, `generate.*`.
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
 * Listens on `serve.host` and `serve.port`, and starts the threads of the server: one for connections, two for
 * texts, and one for each model. They take no signals, and their names begin with "trl-serve-".
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
 * @return TRL_OK: it does not run; TRL_LATER: it still does; TRL_E_CANCELLED (trl_runtime_cancel); the error of
 * the thread that failed.
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
 * models, an array of {name, waiting, running, requests, tokens}. Keys are not in it.
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
