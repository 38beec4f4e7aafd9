/* Serves a model over HTTP from within a program: serve MODEL [ADAPTER] [--stay] [KEY=VALUE ...]. MODEL is a
   Hugging Face directory or a GGUF file, ADAPTER the directory of a LoRA adapter of it; keys are those of the
   groups `serve` and `generate`. The program asks its own server, with the adapter too, puts the model to
   sleep and wakes it. With --stay it then serves until Ctrl-C. */
#define _POSIX_C_SOURCE 200809L
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <trl/serve.h>
#include <unistd.h>

#define ADAPTER "style" /* its name in requests */

static trl_server* interrupted; /* what Ctrl-C stops */

/* Prints what failed; the value of the call it stands around. */
static int ok(trl_status status, trl_error** error) {
  if (status >= TRL_OK) return 1;
  fprintf(stderr, "error %d: %s\n", (int)status, trl_error_message(*error));
  trl_error_destroy(*error);
  *error = NULL;
  return 0;
}

/* Called on this thread, within calls such as trl_server_start and trl_server_wait. */
static void on_log(void* user_data, int32_t level, const char* component, const char* text, size_t size) {
  (void)user_data;
  (void)level;
  fprintf(stderr, "%s: %.*s\n", component, (int)size, text);
}

/* trl_server_cancel is safe in a signal handler. The first Ctrl-C lets requests end, a second one does not.
 */
static void on_signal(int number) {
  (void)number;
  trl_server_cancel(interrupted);
}

/* ---- an HTTP client: any will do --------------------------------------------------------------------- */

static int connect_to(const char* port) {
  struct addrinfo hints, *found = NULL;
  int connection;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo("127.0.0.1", port, &hints, &found) != 0) return -1;
  connection = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  if (connection >= 0 && connect(connection, found->ai_addr, found->ai_addrlen) != 0) {
    close(connection);
    connection = -1;
  }
  freeaddrinfo(found);
  return connection;
}

/* Posts JSON and prints the status and the body of the answer. */
static int post(const char* port, const char* path, const char* json) {
  char text[16384];
  const char* body;
  size_t size = 0;
  ssize_t part;
  const int connection = connect_to(port);
  const int length = snprintf(text, sizeof text,
                              "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                              "Content-Type: application/json\r\nContent-Length: %u\r\n\r\n%s",
                              path, (unsigned)strlen(json), json);
  int good = connection >= 0 && send(connection, text, (size_t)length, MSG_NOSIGNAL) == length;
  while (good && size < sizeof text - 1 &&
         (part = recv(connection, text + size, sizeof text - 1 - size, 0)) > 0)
    size += (size_t)part;
  if (connection >= 0) close(connection);
  text[size] = '\0';
  body = good ? strstr(text, "\r\n\r\n") : NULL;
  if (body == NULL) {
    fprintf(stderr, "the server does not answer on port %s\n", port);
    return 0;
  }
  printf("POST %s %s\n  -> %.3s %s\n", path, json, text + strlen("HTTP/1.1 "), body + 4);
  return 1;
}

/* ---- the server ------------------------------------------------------------------------------------------
 */

/* The port as text: the one of trl_server_describe, since serve.port may be 0. */
static int find_port(trl_server* server, char* port, size_t size, trl_error** error) {
  static const char name[] = "\"port\":";
  const char *json = NULL, *found;
  if (!ok(trl_server_describe(server, &json, error), error)) return 0;
  found = strstr(json, name);
  return found != NULL && snprintf(port, size, "%d", atoi(found + strlen(name))) > 0;
}

/* Requests name the adapter as their model, from the return of this call on. */
static int use_adapter(trl_server* server, const char* port, const char* path, trl_error** error) {
  return ok(trl_server_set_adapter(server, NULL, ADAPTER, path, error), error) &&
         post(port, "/v1/completions",
              "{\"model\": \"" ADAPTER "\", \"prompt\": \"The kernel\", \"max_tokens\": 8}");
}

/* The memory of keys and values is given back meanwhile, and requests are refused. */
static int nap(trl_server* server, const char* port, trl_error** error) {
  static const char request[] = "{\"prompt\": \"The kernel\", \"max_tokens\": 8, \"temperature\": 0}";
  return ok(trl_server_sleep(server, NULL, 1, NULL, error), error) &&
         post(port, "/v1/completions", request) && ok(trl_server_wake_up(server, NULL, NULL, error), error) &&
         post(port, "/v1/completions", request);
}

/* Until Ctrl-C, the server's failure or `serve.drain_timeout` after it. Log lines come meanwhile. */
static int stay(trl_server* server, const char* port, trl_error** error) {
  struct sigaction action;
  printf("curl http://127.0.0.1:%s/v1/models   (Ctrl-C ends)\n", port);
  fflush(stdout);
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  interrupted = server;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  return ok(trl_server_wait(server, -1, error), error);
}

static int serve(trl_server* server, const char* adapter, int stays, trl_error** error) {
  static const char request[] = "{\"model\": \"tiny\", \"prompt\": \"The kernel\", \"max_tokens\": 8}";
  char port[16];
  int good = ok(trl_server_start(server, error), error) && find_port(server, port, sizeof port, error) &&
             post(port, "/v1/completions", request) &&
             (adapter == NULL || use_adapter(server, port, adapter, error)) && nap(server, port, error) &&
             (!stays || stay(server, port, error)) &&
             ok(trl_server_stop(server, -1, error), error); /* requests that run may end */
  if (good) printf("stopped\n");
  return good;
}

/* ---- the program -----------------------------------------------------------------------------------------
 */

static int set_pair(trl_config* config, char* pair, trl_error** error) {
  char* equals = strchr(pair, '=');
  *equals = '\0';
  return ok(trl_config_set(config, pair, equals + 1, error), error);
}

int main(int argc, char** argv) {
  trl_error* error = NULL;
  trl_config* config = NULL;
  trl_runtime* runtime = NULL;
  trl_model* model = NULL;
  trl_server* server = NULL;
  const char* adapter = NULL;
  int good, stays = 0, i;
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [ADAPTER] [--stay] [KEY=VALUE ...]\n", argv[0]);
    return 2;
  }
  good = ok(trl_config_create(&config, &error), &error) &&
         ok(trl_config_set(config, "serve.port", "0", &error), &error); /* any that is free */
  for (i = 2; good && i < argc; ++i) {
    if (strcmp(argv[i], "--stay") == 0)
      stays = 1;
    else if (strchr(argv[i], '=') != NULL)
      good = set_pair(config, argv[i], &error);
    else
      adapter = argv[i];
  }
  good = good && ok(trl_runtime_create(config, &runtime, &error), &error) &&
         ok(trl_runtime_set_log(runtime, on_log, NULL, NULL, &error), &error) &&
         ok(trl_model_open(runtime, argv[1], config, &model, &error), &error) &&
         ok(trl_server_create(runtime, config, &server, &error), &error) &&
         ok(trl_server_add_model(server, "tiny", model, NULL, NULL, &error), &error) &&
         serve(server, adapter, stays, &error);
  trl_server_destroy(server);
  trl_model_destroy(model);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return good ? 0 : 1;
}
