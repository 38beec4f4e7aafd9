// The C ABI of libtrl_serve.so, made from include/trl/serve.h by bindings/generate.py.
package libtrl;

import com.sun.jna.Library;
import com.sun.jna.Pointer;

interface ServeAbi extends Library {
  int trl_server_create(Pointer runtime, Pointer options, Pointer out_server, Pointer error);

  int trl_server_add_model(Pointer server, Pointer name, Pointer model, Pointer tokenizer, Pointer options, Pointer error);

  int trl_server_add_generator(Pointer server, Pointer name, Pointer generator, Pointer tokenizer, Pointer options, Pointer error);

  int trl_server_add_trainer(Pointer server, Pointer name, Pointer trainer, Pointer options, Pointer error);

  int trl_server_start(Pointer server, Pointer error);

  int trl_server_stop(Pointer server, double seconds, Pointer error);

  int trl_server_wait(Pointer server, double seconds, Pointer error);

  void trl_server_cancel(Pointer server);

  int trl_server_describe(Pointer server, Pointer out_json, Pointer error);

  int trl_server_set_adapter(Pointer server, Pointer model, Pointer name, Pointer path, Pointer error);

  int trl_server_sleep(Pointer server, Pointer model, int level, Pointer mode, Pointer error);

  int trl_server_wake_up(Pointer server, Pointer model, Pointer tags, Pointer error);

  void trl_server_destroy(Pointer server);
}
