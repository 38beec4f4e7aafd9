/* Two copies of libtrl.so in one process, as two plug-ins of a host bring them: each knows its own handles.
 * usage: second_copy LIBRARY */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trl.h>
#include <unistd.h>

static void require(int met, const char* what) {
  if (met) return;
  fprintf(stderr, "not met: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require((condition), #condition)

static void* open_copy(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  REQUIRE(library != NULL);
  return library;
}
#define TRL(library, name) ((__typeof__(name)*)dlsym(library, #name))

int main(int argc, char** argv) {
  char command[8192], copy[] = "/tmp/trl-copy-XXXXXX";
  void *first, *second;
  trl_config *config = NULL, *other = NULL;
  trl_dataset* dataset = NULL;
  trl_error* error = NULL;
  const char* value = NULL;
  int64_t count = 0;
  REQUIRE(argc == 2 && mkstemp(copy) >= 0);
  snprintf(command, sizeof command, "cp '%s' %s", argv[1], copy);
  REQUIRE(system(command) == 0);
  first = open_copy(argv[1]);
  second = open_copy(copy);
  unlink(copy);
  REQUIRE(first != second);
  REQUIRE(TRL(first, trl_config_create)(&config, NULL) == TRL_OK);
  REQUIRE(TRL(second, trl_config_create)(&other, NULL) == TRL_OK);
  REQUIRE(TRL(first, trl_dataset_from_buffer)(NULL, "jsonl", "{\"text\": \"a\"}\n", 14, NULL, &dataset,
                                              NULL) == TRL_OK);

  REQUIRE(TRL(second, trl_config_set)(config, "seed", "7", &error) == TRL_E_INVALID_ARGUMENT);
  REQUIRE(strstr(TRL(second, trl_error_message)(error), "another copy of libtrl") != NULL);
  REQUIRE(TRL(first, trl_error_code)(error) == TRL_E_INVALID_ARGUMENT); /* is no error of the first */
  REQUIRE(TRL(first, trl_error_message)(error)[0] == '\0');
  TRL(first, trl_error_destroy)(error);
  TRL(second, trl_error_destroy)(error);
  REQUIRE(TRL(second, trl_dataset_get_row_count)(dataset, &count, NULL) == TRL_E_INVALID_ARGUMENT);
  TRL(second, trl_dataset_destroy)(dataset); /* leaves it */
  REQUIRE(TRL(first, trl_dataset_get_row_count)(dataset, &count, NULL) == TRL_OK && count == 1);

  REQUIRE(TRL(first, trl_config_set)(config, "seed", "7", NULL) == TRL_OK);
  REQUIRE(TRL(second, trl_config_set)(other, "seed", "8", NULL) == TRL_OK);
  REQUIRE(TRL(first, trl_config_get)(config, "seed", &value, NULL) == TRL_OK && strcmp(value, "7") == 0);
  TRL(first, trl_dataset_destroy)(dataset);
  TRL(first, trl_config_destroy)(config);
  TRL(second, trl_config_destroy)(other);
  return 0;
}
