// The C ABI, made from include/trl/trl.h by bindings/generate.py.
package libtrl;

import com.sun.jna.Callback;
import com.sun.jna.Library;
import com.sun.jna.Pointer;

interface Abi extends Library {
  int VERSION_MAJOR = 0;
  int VERSION_MINOR = 1;
  int VERSION_PATCH = 0;

  interface trl_destroy_fn extends Callback {
    void invoke(Pointer user_data);
  }

  interface trl_log_fn extends Callback {
    void invoke(Pointer user_data, int level, Pointer component, Pointer text, long size);
  }

  interface trl_progress_fn extends Callback {
    int invoke(Pointer user_data, Pointer phase, long done, long total);
  }

  interface trl_read_fn extends Callback {
    long invoke(Pointer user_data, Pointer file, long offset, Pointer buffer, long size);
  }

  interface trl_write_fn extends Callback {
    int invoke(Pointer user_data, int what, Pointer file, long offset, Pointer data, long size);
  }

  interface trl_next_record_fn extends Callback {
    int invoke(Pointer user_data, Pointer record);
  }

  interface trl_rewind_fn extends Callback {
    int invoke(Pointer user_data);
  }

  interface trl_batch_fn extends Callback {
    int invoke(Pointer user_data, Pointer json, long size);
  }

  interface trl_event_fn extends Callback {
    int invoke(Pointer user_data, int event, Pointer metrics);
  }

  interface trl_rollout_fn extends Callback {
    int invoke(Pointer user_data, Pointer rollout);
  }

  interface trl_token_fn extends Callback {
    int invoke(Pointer user_data, long prompt, int token, Pointer text, long size, double log_probability);
  }

  int trl_version();

  Pointer trl_version_string();

  Pointer trl_build_info();

  int trl_has_feature(Pointer name);

  Pointer trl_status_name(int status);

  int trl_error_code(Pointer error);

  Pointer trl_error_message(Pointer error);

  Pointer trl_error_key(Pointer error);

  int trl_error_place(Pointer error, Pointer out_file, Pointer out_line, Pointer out_column, Pointer out_row);

  int trl_error_callback_code(Pointer error);

  void trl_error_destroy(Pointer error);

  int trl_config_create(Pointer out_config, Pointer error);

  int trl_config_set(Pointer config, Pointer key, Pointer value, Pointer error);

  int trl_config_unset(Pointer config, Pointer key, Pointer error);

  int trl_config_get(Pointer config, Pointer key, Pointer out_value, Pointer error);

  int trl_config_get_origin(Pointer config, Pointer key, Pointer out_origin, Pointer error);

  int trl_config_load(Pointer config, Pointer path, Pointer error);

  int trl_config_load_text(Pointer config, Pointer text, long size, Pointer error);

  int trl_config_describe(Pointer config, Pointer out_json, Pointer error);

  int trl_config_get_warnings(Pointer config, Pointer out_json, Pointer error);

  int trl_config_get_schema(Pointer trainer, Pointer out_json, Pointer error);

  void trl_config_destroy(Pointer config);

  Pointer trl_option_next(Pointer previous);

  Pointer trl_option_name(Pointer option);

  Pointer trl_option_section(Pointer option);

  Pointer trl_option_group(Pointer option);

  Pointer trl_option_origin(Pointer option);

  int trl_option_type(Pointer option, Pointer trainer);

  int trl_option_nullable(Pointer option);

  Pointer trl_option_default(Pointer option, Pointer trainer);

  Pointer trl_option_accepted(Pointer option, Pointer trainer);

  Pointer trl_option_trainers(Pointer option);

  Pointer trl_option_aliases(Pointer option);

  Pointer trl_option_other_names(Pointer option);

  Pointer trl_option_doc(Pointer option, Pointer trainer);

  Pointer trl_option_since(Pointer option);

  Pointer trl_option_unsupported_reason(Pointer option);

  Pointer trl_option_ignored_reason(Pointer option);

  Pointer trl_option_taken(Pointer option);

  int trl_runtime_create(Pointer config, Pointer out_runtime, Pointer error);

  int trl_runtime_set_log(Pointer runtime, trl_log_fn log, Pointer user_data, trl_destroy_fn destroy, Pointer error);

  int trl_runtime_set_progress(Pointer runtime, trl_progress_fn progress, Pointer user_data, trl_destroy_fn destroy, Pointer error);

  int trl_runtime_mount(Pointer runtime, Pointer name, trl_read_fn read, trl_write_fn write, Pointer user_data, trl_destroy_fn destroy, Pointer error);

  int trl_runtime_set_memory_limit(Pointer runtime, long bytes, Pointer error);

  int trl_runtime_memory(Pointer runtime, Pointer kind, Pointer out_now_bytes, Pointer out_peak_bytes, Pointer error);

  int trl_runtime_describe(Pointer runtime, Pointer out_json, Pointer error);

  void trl_runtime_cancel(Pointer runtime);

  void trl_runtime_destroy(Pointer runtime);

  int trl_runtime_shutdown(Pointer error);

  int trl_dataset_open(Pointer runtime, Pointer path, Pointer options, Pointer out_dataset, Pointer error);

  int trl_dataset_open_config(Pointer runtime, Pointer config, Pointer out_train, Pointer out_eval, Pointer error);

  int trl_dataset_from_buffer(Pointer runtime, Pointer format, Pointer data, long size, Pointer options, Pointer out_dataset, Pointer error);

  int trl_dataset_from_arrow(Pointer runtime, Pointer stream, Pointer options, Pointer out_dataset, Pointer error);

  int trl_dataset_from_callback(Pointer runtime, trl_next_record_fn next, trl_rewind_fn rewind, Pointer user_data, trl_destroy_fn destroy, Pointer options, Pointer out_dataset, Pointer error);

  int trl_record_set_text(Pointer record, Pointer name, Pointer text, long size, Pointer error);

  int trl_record_set_ids(Pointer record, Pointer name, Pointer ids, long count, Pointer error);

  int trl_record_set_json(Pointer record, Pointer name, Pointer json, long size, Pointer error);

  int trl_dataset_get_row_count(Pointer dataset, Pointer out_count, Pointer error);

  int trl_dataset_get_profile(Pointer dataset, Pointer tokenizer, Pointer options, Pointer out_json, Pointer out_text, Pointer error);

  int trl_dataset_get_example(Pointer dataset, Pointer tokenizer, Pointer options, long row, Pointer out_json, Pointer error);

  int trl_dataset_visit_batches(Pointer dataset, Pointer tokenizer, Pointer options, long first, long count, trl_batch_fn on_batch, Pointer user_data, Pointer error);

  void trl_dataset_destroy(Pointer dataset);

  int trl_tokenizer_open(Pointer runtime, Pointer path, Pointer options, Pointer out_tokenizer, Pointer error);

  int trl_tokenizer_encode(Pointer tokenizer, Pointer text, long size, int add_special_tokens, int split_special_tokens, Pointer ids, long capacity, Pointer out_count, Pointer error);

  int trl_tokenizer_decode(Pointer tokenizer, Pointer ids, long count, int skip_special_tokens, Pointer text, long capacity, Pointer out_size, Pointer error);

  int trl_tokenizer_get_piece(Pointer tokenizer, int id, Pointer piece, long capacity, Pointer out_size, Pointer error);

  int trl_tokenizer_apply_chat_template(Pointer tokenizer, Pointer json, long size, Pointer text, long capacity, Pointer out_size, Pointer error);

  int trl_tokenizer_describe(Pointer tokenizer, Pointer out_json, Pointer error);

  void trl_tokenizer_destroy(Pointer tokenizer);

  int trl_model_open(Pointer runtime, Pointer path, Pointer options, Pointer out_model, Pointer error);

  int trl_model_from_trainer(Pointer trainer, Pointer out_model, Pointer error);

  int trl_model_convert(Pointer runtime, Pointer path, Pointer target, Pointer options, Pointer error);

  int trl_model_describe(Pointer model, Pointer out_json, Pointer error);

  int trl_model_get_tensors(Pointer model, Pointer out_json, Pointer error);

  int trl_model_read_tensor(Pointer model, Pointer name, int what, Pointer out_tensor, Pointer error);

  int trl_model_write_tensor(Pointer model, Pointer name, Pointer tensor, Pointer error);

  int trl_model_add_adapter(Pointer model, Pointer name, Pointer path, Pointer error);

  int trl_model_remove_adapter(Pointer model, Pointer name, Pointer error);

  int trl_model_use_adapter(Pointer model, Pointer name, Pointer error);

  int trl_model_merge_adapter(Pointer model, Pointer name, Pointer error);

  int trl_model_save(Pointer model, Pointer path, Pointer options, Pointer error);

  int trl_model_score(Pointer model, Pointer texts, Pointer lengths, long count, int form, Pointer options, Pointer scores, Pointer error);

  void trl_model_destroy(Pointer model);

  int trl_trainer_plan(Pointer runtime, Pointer config, Pointer train, Pointer out_json, Pointer out_text, Pointer error);

  int trl_trainer_check(Pointer runtime, Pointer config, Pointer error);

  int trl_trainer_create(Pointer runtime, Pointer config, Pointer train, Pointer eval, Pointer out_trainer, Pointer error);

  int trl_trainer_step(Pointer trainer, Pointer out_metrics, Pointer error);

  int trl_trainer_backward(Pointer trainer, Pointer out_metrics, Pointer error);

  int trl_trainer_update(Pointer trainer, int apply, Pointer out_metrics, Pointer error);

  int trl_trainer_set_learning_rate(Pointer trainer, double learning_rate, Pointer error);

  int trl_trainer_train(Pointer trainer, trl_event_fn on_event, Pointer user_data, Pointer error);

  int trl_trainer_evaluate(Pointer trainer, Pointer rows, Pointer out_metrics, Pointer error);

  int trl_trainer_save(Pointer trainer, Pointer path, Pointer options, Pointer error);

  int trl_trainer_add_reward(Pointer trainer, Pointer name, trl_rollout_fn function, Pointer user_data, trl_destroy_fn destroy, Pointer error);

  int trl_trainer_set_rollout(Pointer trainer, trl_rollout_fn rollout, Pointer user_data, trl_destroy_fn destroy, Pointer error);

  int trl_trainer_set_tools(Pointer trainer, trl_rollout_fn tools, Pointer user_data, trl_destroy_fn destroy, Pointer error);

  long trl_rollout_count(Pointer rollout);

  int trl_rollout_get(Pointer rollout, long index, Pointer out_json, Pointer error);

  int trl_rollout_set_reward(Pointer rollout, long index, double reward, Pointer error);

  int trl_rollout_set_completion(Pointer rollout, long index, Pointer ids, long count, Pointer log_probs, Pointer written, Pointer columns, Pointer error);

  int trl_rollout_log(Pointer rollout, Pointer name, double value, Pointer error);

  int trl_rollout_set_value(Pointer rollout, long index, Pointer name, Pointer json, Pointer error);

  int trl_rollout_finish(Pointer rollout, Pointer message, Pointer error);

  void trl_trainer_cancel(Pointer trainer);

  void trl_trainer_pause(Pointer trainer);

  void trl_trainer_resume(Pointer trainer);

  int trl_trainer_describe(Pointer trainer, Pointer out_json, Pointer error);

  int trl_trainer_get_integers(Pointer trainer, Pointer name, Pointer values, long capacity, Pointer out_count, Pointer error);

  void trl_trainer_destroy(Pointer trainer);

  int trl_metrics_get(Pointer metrics, Pointer name, Pointer out_value);

  Pointer trl_metrics_text(Pointer metrics, Pointer name);

  Pointer trl_metrics_next(Pointer metrics, Pointer previous);

  int trl_evaluator_create(Pointer runtime, Pointer config, Pointer out_evaluator, Pointer error);

  int trl_evaluator_evaluate(Pointer evaluator, Pointer rows, Pointer out_metrics, Pointer error);

  int trl_evaluator_complete(Pointer evaluator, Pointer out_json, Pointer error);

  void trl_evaluator_destroy(Pointer evaluator);

  int trl_generator_create(Pointer model, Pointer tokenizer, Pointer out_generator, Pointer error);

  int trl_generator_generate(Pointer generator, Pointer prompts, Pointer lengths, long count, Pointer options, trl_token_fn on_token, Pointer user_data, Pointer out_completions, Pointer error);

  int trl_generator_add(Pointer generator, Pointer text, long size, Pointer ids, long count, Pointer options, Pointer out_first, Pointer error);

  int trl_generator_step(Pointer generator, trl_token_fn on_token, Pointer user_data, Pointer error);

  int trl_generator_extend(Pointer generator, long completion, Pointer text, long size, Pointer ids, long count, Pointer options, Pointer error);

  int trl_generator_cancel(Pointer generator, long first, long count, Pointer error);

  int trl_generator_take(Pointer generator, long first, long count, Pointer out_completions, Pointer error);

  int trl_generator_release_memory(Pointer generator, Pointer error);

  void trl_generator_destroy(Pointer generator);

  Pointer trl_completions_text(Pointer completions, long index, Pointer out_size);

  Pointer trl_completions_tokens(Pointer completions, long index, Pointer out_count);

  Pointer trl_completions_finish_reason(Pointer completions, long index);

  Pointer trl_completions_json(Pointer completions, long index, Pointer out_size);

  void trl_completions_destroy(Pointer completions);
}
