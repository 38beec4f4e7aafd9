/* The smallest consumer: asks what the library is and sets a key. */
#include <stdio.h>
#include <string.h>
#include <trl.h>

int main(void) {
  trl_config* config = NULL;
  const char* value = NULL;
  int good = trl_config_create(&config, NULL) == TRL_OK &&
             trl_config_set(config, "max_length", "17", NULL) == TRL_OK &&
             trl_config_get(config, "max_seq_length", &value, NULL) == TRL_OK && strcmp(value, "17") == 0;
  trl_config_destroy(config);
  printf("libtrl %s\n%s\n", trl_version_string(), trl_build_info());
  return good ? 0 : 1;
}
