/* A host that has functions of its own under every name which the libraries within libtrl export; they end
 * the process (names.sh writes them). Every job that uses one of those libraries is done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trl.h>

static trl_error* error;

static void require(int met, const char* what) {
  if (met) return;
  fprintf(stderr, "not met: %s: %s\n", what, trl_error_message(error));
  exit(1);
}
#define REQUIRE(condition) require((condition), #condition)

static void count_rows(const char* format, const void* data, size_t size) {
  trl_dataset* rows = NULL;
  int64_t count = 0;
  REQUIRE(trl_dataset_from_buffer(NULL, format, data, size, NULL, &rows, &error) == TRL_OK);
  REQUIRE(trl_dataset_get_row_count(rows, &count, &error) == TRL_OK);
  REQUIRE(count == 2);
  trl_dataset_destroy(rows);
}

static void read_rows(void) {
  static const char csv[] = "text\n\"one, or\"\ntwo\n";
  static const unsigned char gzip[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xab,
                                       0x56, 0x2a, 0x49, 0xad, 0x28, 0x51, 0xb2, 0x52, 0x50, 0xca, 0xcf,
                                       0x4b, 0x55, 0xaa, 0xe5, 0xaa, 0x86, 0xf3, 0x4b, 0xca, 0xf3, 0x81,
                                       0x7c, 0x00, 0xd1, 0x5b, 0x69, 0xd5, 0x20, 0x00, 0x00, 0x00};
  static const unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x20, 0xe5, 0x00, 0x00, 0xb0, 0x7b,
                                       0x22, 0x74, 0x65, 0x78, 0x74, 0x22, 0x3a, 0x20, 0x22, 0x6f, 0x6e,
                                       0x65, 0x22, 0x7d, 0x0a, 0x74, 0x77, 0x6f, 0x22, 0x7d, 0x0a, 0x01,
                                       0x00, 0x66, 0x9b, 0x4b, 0x6f, 0x2d, 0x2a, 0x9f};
  count_rows("csv", csv, sizeof csv - 1);
  count_rows("jsonl", gzip, sizeof gzip);
  count_rows("jsonl", zstd, sizeof zstd);
}

/* e and an accent are one letter after NFC, and a pattern with \p{L} splits what is left. */
static void encode(const char* directory) {
  static const char apart[] = "cafe\xcc\x81 12", together[] = "caf\xc3\xa9 12";
  trl_tokenizer* tokenizer = NULL;
  int32_t ids[32];
  char text[64];
  size_t count = 0, size = 0;
  REQUIRE(trl_tokenizer_open(NULL, directory, NULL, &tokenizer, &error) == TRL_OK);
  REQUIRE(trl_tokenizer_encode(tokenizer, apart, sizeof apart - 1, 0, 0, ids, 32, &count, &error) == TRL_OK);
  REQUIRE(trl_tokenizer_decode(tokenizer, ids, count, 0, text, sizeof text, &size, &error) == TRL_OK);
  REQUIRE(size == sizeof together - 1 && memcmp(text, together, size) == 0);
  trl_tokenizer_destroy(tokenizer);
}

/* One step, with prepared rows kept in a cache that is read again. */
static void train(const char* model, const char* out) {
  static const char rows[] = "{\"text\": \"one two three\"}\n{\"text\": \"four five six\"}\n";
  static const char yaml[] = "max_steps: 1\nreport_to: [none]\nsave_strategy: 'no'\nfp16: false\n";
  char cache[4096];
  int round;
  snprintf(cache, sizeof cache, "%s/cache", out);
  for (round = 0; round < 2; ++round) {
    trl_config* config = NULL;
    trl_dataset* dataset = NULL;
    trl_trainer* trainer = NULL;
    REQUIRE(trl_config_create(&config, &error) == TRL_OK);
    REQUIRE(trl_config_load_text(config, yaml, sizeof yaml - 1, &error) == TRL_OK);
    REQUIRE(trl_config_set(config, "model_name_or_path", model, &error) == TRL_OK);
    REQUIRE(trl_config_set(config, "output_dir", out, &error) == TRL_OK);
    REQUIRE(trl_config_set(config, "dataset_cache_dir", cache, &error) == TRL_OK);
    REQUIRE(trl_dataset_from_buffer(NULL, "jsonl", rows, sizeof rows - 1, NULL, &dataset, &error) == TRL_OK);
    REQUIRE(trl_trainer_create(NULL, config, dataset, NULL, &trainer, &error) == TRL_OK);
    REQUIRE(trl_trainer_train(trainer, NULL, NULL, &error) == TRL_OK);
    trl_trainer_destroy(trainer);
    trl_dataset_destroy(dataset);
    trl_config_destroy(config);
  }
}

int main(int argc, char** argv) {
  char path[4096], out[] = "/tmp/trl-names-XXXXXX";
  if (argc < 2) return 2;
  read_rows();
  snprintf(path, sizeof path, "%s/tests/golden/tokenizers/bpe_qwen2", argv[1]);
  encode(path);
  if (!trl_has_feature("engine")) return 0;
  REQUIRE(mkdtemp(out) != NULL);
  snprintf(path, sizeof path, "%s/tests/golden/models/llama", argv[1]);
  train(path, out);
  return 0;
}
