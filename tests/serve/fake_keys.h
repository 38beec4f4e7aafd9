// The options of the fake library.
#pragma once

namespace trl::serve::test {

struct Key {
  const char *name, *value;
};

// The keys that the server reads, with their defaults.
inline constexpr Key kKeys[] = {{"serve.host", "127.0.0.1"},
                                {"serve.port", "0"},
                                {"serve.api_key", "[]"},
                                {"serve.model_names", "[]"},
                                {"serve.max_model_len", "null"},
                                {"serve.max_num_seqs", "8"},
                                {"serve.enable_lora", "false"},
                                {"serve.adapter_dir", "null"},
                                {"serve.lora_modules", "[]"},
                                {"serve.max_loras", "3"},
                                {"serve.max_lora_rank", "16"},
                                {"serve.enable_sleep_mode", "true"},
                                {"serve.max_connections", "64"},
                                {"serve.max_queue", "16"},
                                {"serve.max_queue_tokens", "1000"},
                                {"serve.max_header_bytes", "2048"},
                                {"serve.max_body_bytes", "10000"},
                                {"serve.max_held_bytes", "10000000"},
                                {"serve.max_prompts", "16"},
                                {"serve.max_n", "8"},
                                {"serve.max_completions", "64"},
                                {"serve.max_request_tokens", "3000"},
                                {"serve.max_stops", "4"},
                                {"serve.max_logprobs", "5"},
                                {"serve.stream_buffer", "1024"},
                                {"serve.header_timeout", "1"},
                                {"serve.body_timeout", "1"},
                                {"serve.request_timeout", "20"},
                                {"serve.write_timeout", "1"},
                                {"serve.idle_timeout", "5"},
                                {"serve.drain_timeout", "5"},
                                {"serve.hosts", "[]"},
                                {"serve.cors_origins", "[]"},
                                {"serve.request_chat_template", "true"},
                                {"generate.max_new_tokens", "256"},
                                {"generate.temperature", "0"},
                                {"generate.seed", "42"},
                                {"generate.stop", "[]"},
                                {"generate.logprobs", "null"},
                                {"generate.prompt_logprobs", "null"},
                                {"generate.prompt_logprobs_temperature", "1"},
                                {"generate.take", "all"},
                                {"generate.usage", "false"},
                                {"generate.num_return_sequences", "1"},
                                {"generate.stream", "0"},
                                {"generate.adapter", "null"},
                                {"generate.regex", "null"},
                                {"generate.speculative_config", "null"},
                                {"generate.generation_kwargs", "null"},
                                {"generate.ignore_eos", "false"}};

}  // namespace trl::serve::test
