// A Go process ends while a goroutine trains: main LIBRARY MODEL MS OUTPUT WAY, where WAY is exit or return.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <trl.h>

#define TRL(name) ((__typeof__(name)*)dlsym(library, #name))

static int train(const char* path, const char* model, const char* output) {
  static const char rows[] = "{\"text\": \"one two three four\"}\n{\"text\": \"five six seven\"}\n";
  const char* settings[][2] = {{"model_name_or_path", model}, {"output_dir", output}, {"max_steps", "100000"},
                               {"report_to", "none"}, {"save_strategy", "no"}, {"logging_steps", "1000"}};
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  trl_config* config = NULL;
  trl_dataset* dataset = NULL;
  trl_trainer* trainer = NULL;
  size_t i;
  if (library == NULL || TRL(trl_config_create)(&config, NULL) != TRL_OK) return 1;
  for (i = 0; i < sizeof settings / sizeof *settings; ++i) {
    if (TRL(trl_config_set)(config, settings[i][0], settings[i][1], NULL) != TRL_OK) return 1;
  }
  if (TRL(trl_dataset_from_buffer)(NULL, "jsonl", rows, sizeof rows - 1, NULL, &dataset, NULL) != TRL_OK) return 1;
  if (TRL(trl_trainer_create)(NULL, config, dataset, NULL, &trainer, NULL) != TRL_OK) return 1;
  return TRL(trl_trainer_train)(trainer, NULL, NULL, NULL);
}
*/
import "C"

import (
	"os"
	"strconv"
	"time"
)

func main() {
	ms, _ := strconv.ParseFloat(os.Args[3], 64)
	go C.train(C.CString(os.Args[1]), C.CString(os.Args[2]), C.CString(os.Args[4]))
	time.Sleep(time.Duration(ms * float64(time.Millisecond)))
	if os.Args[5] == "exit" {
		os.Exit(0)
	}
}
