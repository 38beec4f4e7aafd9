// Opens libtrl_serve.so, which only programs that serve need.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve_abi.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define MAJOR TEXT(TRL_VERSION_MAJOR)

struct trlgo_serve trlgo_serve;

static char* failed;  // why it cannot be opened

static void fail(const char* reason) {
  static const char before[] = "the server's library cannot be loaded: ";
  const size_t size = sizeof before + strlen(reason);
  failed = malloc(size);
  if (failed != NULL) snprintf(failed, size, "%s%s", before, reason);
}

// Opens the one beside libtrl.so, or else the one that the dynamic linker finds.
static void* open_library(void) {
  static const char name[] = "libtrl_serve.so." MAJOR;
  void* library = dlopen("libtrl.so." MAJOR, RTLD_LAZY | RTLD_NOLOAD);
  const struct link_map* map = NULL;
  void* server = NULL;
  if (library != NULL && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && strrchr(map->l_name, '/') != NULL) {
    const size_t folder = (size_t)(strrchr(map->l_name, '/') - map->l_name) + 1;
    char* path = malloc(folder + sizeof name);
    if (path != NULL) {
      memcpy(path, map->l_name, folder);
      memcpy(path + folder, name, sizeof name);
      server = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      free(path);
    }
  }
  if (library != NULL) dlclose(library);
  return server != NULL ? server : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void find_functions(void) {
  void* library = open_library();
  if (library == NULL) {
    fail(dlerror());
    return;
  }
#define FIND(name)                                        \
  *(void**)&trlgo_serve.name = dlsym(library, #name);     \
  if (trlgo_serve.name == NULL) {                         \
    fail("it has no " #name ": it is another version's"); \
    return;                                               \
  }
  TRLGO_SERVE_FUNCTIONS(FIND)
}

const char* trlgo_serve_open(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_functions);
  return failed;
}
