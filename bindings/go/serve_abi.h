// The functions of trl/serve.h, whose library is opened by trlgo_serve_open; made by bindings/generate.py.
// clang-format off
#ifndef TRL_GO_SERVE_ABI_H
#define TRL_GO_SERVE_ABI_H

#include <trl/trl.h>

// Opens the library once, and returns why it cannot be, or NULL.
const char* trlgo_serve_open(void);

typedef struct trl_server trl_server;

struct trlgo_serve {
  trl_status (*trl_server_create)(trl_runtime *runtime, const trl_config *options, trl_server **out_server, trl_error **error);
  trl_status (*trl_server_add_model)(trl_server *server, const char *name, trl_model *model, trl_tokenizer *tokenizer, const trl_config *options, trl_error **error);
  trl_status (*trl_server_add_generator)(trl_server *server, const char *name, trl_generator *generator, trl_tokenizer *tokenizer, const trl_config *options, trl_error **error);
  trl_status (*trl_server_add_trainer)(trl_server *server, const char *name, trl_trainer *trainer, const trl_config *options, trl_error **error);
  trl_status (*trl_server_start)(trl_server *server, trl_error **error);
  trl_status (*trl_server_stop)(trl_server *server, double seconds, trl_error **error);
  trl_status (*trl_server_wait)(trl_server *server, double seconds, trl_error **error);
  void (*trl_server_cancel)(trl_server *server);
  trl_status (*trl_server_describe)(trl_server *server, const char **out_json, trl_error **error);
  trl_status (*trl_server_set_adapter)(trl_server *server, const char *model, const char *name, const char *path, trl_error **error);
  trl_status (*trl_server_sleep)(trl_server *server, const char *model, int32_t level, const char *mode, trl_error **error);
  trl_status (*trl_server_wake_up)(trl_server *server, const char *model, const char *tags, trl_error **error);
  void (*trl_server_destroy)(trl_server *server);
};
extern struct trlgo_serve trlgo_serve;

#define TRLGO_SERVE_FUNCTIONS(F) \
  F(trl_server_create) \
  F(trl_server_add_model) \
  F(trl_server_add_generator) \
  F(trl_server_add_trainer) \
  F(trl_server_start) \
  F(trl_server_stop) \
  F(trl_server_wait) \
  F(trl_server_cancel) \
  F(trl_server_describe) \
  F(trl_server_set_adapter) \
  F(trl_server_sleep) \
  F(trl_server_wake_up) \
  F(trl_server_destroy)

static inline trl_status trl_server_create(trl_runtime *runtime, const trl_config *options, trl_server **out_server, trl_error **error) {
  return trlgo_serve.trl_server_create(runtime, options, out_server, error);
}

static inline trl_status trl_server_add_model(trl_server *server, const char *name, trl_model *model, trl_tokenizer *tokenizer, const trl_config *options, trl_error **error) {
  return trlgo_serve.trl_server_add_model(server, name, model, tokenizer, options, error);
}

static inline trl_status trl_server_add_generator(trl_server *server, const char *name, trl_generator *generator, trl_tokenizer *tokenizer, const trl_config *options, trl_error **error) {
  return trlgo_serve.trl_server_add_generator(server, name, generator, tokenizer, options, error);
}

static inline trl_status trl_server_add_trainer(trl_server *server, const char *name, trl_trainer *trainer, const trl_config *options, trl_error **error) {
  return trlgo_serve.trl_server_add_trainer(server, name, trainer, options, error);
}

static inline trl_status trl_server_start(trl_server *server, trl_error **error) {
  return trlgo_serve.trl_server_start(server, error);
}

static inline trl_status trl_server_stop(trl_server *server, double seconds, trl_error **error) {
  return trlgo_serve.trl_server_stop(server, seconds, error);
}

static inline trl_status trl_server_wait(trl_server *server, double seconds, trl_error **error) {
  return trlgo_serve.trl_server_wait(server, seconds, error);
}

static inline void trl_server_cancel(trl_server *server) {
  trlgo_serve.trl_server_cancel(server);
}

static inline trl_status trl_server_describe(trl_server *server, const char **out_json, trl_error **error) {
  return trlgo_serve.trl_server_describe(server, out_json, error);
}

static inline trl_status trl_server_set_adapter(trl_server *server, const char *model, const char *name, const char *path, trl_error **error) {
  return trlgo_serve.trl_server_set_adapter(server, model, name, path, error);
}

static inline trl_status trl_server_sleep(trl_server *server, const char *model, int32_t level, const char *mode, trl_error **error) {
  return trlgo_serve.trl_server_sleep(server, model, level, mode, error);
}

static inline trl_status trl_server_wake_up(trl_server *server, const char *model, const char *tags, trl_error **error) {
  return trlgo_serve.trl_server_wake_up(server, model, tags, error);
}

static inline void trl_server_destroy(trl_server *server) {
  trlgo_serve.trl_server_destroy(server);
}

#endif
