/* The smallest consumer of libtrl_serve: makes a server and says what it is. */
#include <stdio.h>
#include <string.h>
#include <trl/serve.h>

int main(void) {
  trl_server* server = NULL;
  const char* json = NULL;
  int good = trl_server_create(NULL, NULL, &server, NULL) == TRL_OK &&
             trl_server_describe(server, &json, NULL) == TRL_OK && strstr(json, "stopped") != NULL;
  if (json != NULL) puts(json);
  trl_server_destroy(server);
  return good ? 0 : 1;
}
