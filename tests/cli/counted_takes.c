/* Is loaded before libtrl: notes each call of trl_generator_take in the file `takes`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "trl/trl.h"

trl_status trl_generator_take(trl_generator* generator, size_t first, size_t count,
                              trl_completions** out_completions, trl_error** error) {
  trl_status (*take)(trl_generator*, size_t, size_t, trl_completions**, trl_error**);
  void* const symbol = dlsym(RTLD_NEXT, "trl_generator_take");
  FILE* const takes = fopen("takes", "a");
  if (takes != NULL) {
    fputs("take\n", takes);
    fclose(takes);
  }
  memcpy(&take, &symbol, sizeof take);
  return take(generator, first, count, out_completions, error);
}
