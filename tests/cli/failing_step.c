/* Is loaded before libtrl: the third call of trl_generator_step fails, with the error of another call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "trl/trl.h"

trl_status trl_generator_step(trl_generator* generator, trl_token_fn on_token, void* user_data,
                              trl_error** error) {
  static int calls = 0;
  trl_status (*step)(trl_generator*, trl_token_fn, void*, trl_error**);
  void* const symbol = dlsym(RTLD_NEXT, "trl_generator_step");
  if (++calls == 3) {
    trl_tokenizer* none = NULL;
    trl_tokenizer_open(NULL, "no-more-memory", NULL, &none, error);
    return TRL_E_OUT_OF_MEMORY;
  }
  memcpy(&step, &symbol, sizeof step);
  return step(generator, on_token, user_data, error);
}
