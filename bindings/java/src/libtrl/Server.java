package libtrl;

import static libtrl.Loader.serve;

import com.sun.jna.Pointer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import libtrl.Constants.Status;

/**
 * Serves models over HTTP, by the protocols of OpenAI, vLLM and TRL, on threads of its own. close stops it without time
 * for the requests that run; stop gives them some. Where a model is named, null stands for the first one.
 */
public final class Server extends Handle {
  private final Set<Handle> served = ConcurrentHashMap.newKeySet(); // what the library keeps alive for it

  public Server(Config options) {
    this(null, options);
  }

  /** The runtime and options may be null. */
  public Server(TrlRuntime runtime, Config options) {
    super(Call.create(serve()::trl_server_destroy,
        c -> serve().trl_server_create(c.of(runtime), c.of(options), c.out(), c.error())),
        serve()::trl_server_destroy, runtime);
  }

  /** Adds a model, which requests name. */
  public void addModel(String name, Model model) {
    addModel(name, model, null, null);
  }

  /** The same with another tokenizer than the model's own and with options of its own; either may be null. */
  public void addModel(String name, Model model, Tokenizer tokenizer, Config options) {
    Call.status(c -> serve().trl_server_add_model(c.of(this), c.text(name), c.of(model), c.of(tokenizer), c.of(options), c.error()));
    served.add(model);
    if (tokenizer != null) served.add(tokenizer);
  }

  /** Adds a generator, which is the server's from start to the end of stop. The options may be null. */
  public void addGenerator(String name, Generator generator, Tokenizer tokenizer, Config options) {
    Call.status(c -> serve().trl_server_add_generator(c.of(this), c.text(name), c.of(generator), c.of(tokenizer), c.of(options),
        c.error()));
    served.add(generator);
    served.add(tokenizer);
  }

  /** Adds the model of a trainer: requests are answered with what it trains, with serve_share while it trains. */
  public void addTrainer(String name, Trainer trainer, Config options) {
    Call.status(c -> serve().trl_server_add_trainer(c.of(this), c.text(name), c.of(trainer), c.of(options), c.error()));
    served.add(trainer);
  }

  /** Listens, and starts the threads of the server. */
  public void start() {
    Call.status(c -> serve().trl_server_start(c.of(this), c.error()));
  }

  /** Stops it when the requests that run have ended, at most after this time; null: serve.drain_timeout. */
  public void stop(Duration time) {
    Call.status(c -> serve().trl_server_stop(c.of(this), seconds(time), c.error()));
  }

  public void stop() {
    stop(null);
  }

  /**
   * Waits until it has stopped, at most this time (null: any), and tells whether it has. Throws what made a thread of the
   * server fail. Log lines come meanwhile.
   */
  public boolean await(Duration time) {
    return Call.status(c -> serve().trl_server_wait(c.of(this), seconds(time), c.error())) != Status.LATER;
  }

  private static double seconds(Duration time) {
    return time == null ? -1 : time.toNanos() / 1e9;
  }

  /** Asks it to stop, and returns at once; a second time: without time for requests. From any thread. */
  public void cancel() {
    try (Call call = new Call()) {
      serve().trl_server_cancel(call.of(this));
    }
  }

  @Override
  void interrupt(Pointer pointer) {
    serve().trl_server_cancel(pointer);
  }

  /** Its state, address and port, and its models with their adapters. */
  public Map<String, Object> describe() {
    return Call.object(c -> serve().trl_server_describe(c.of(this), c.out(), c.error()));
  }

  /**
   * Gives a model an adapter that requests name, or a new version of one. Requests that run keep the version that they
   * began with.
   */
  public void setAdapter(String model, String name, Path path) {
    change(model, name, path.toString());
  }

  /** Takes an adapter from a model. */
  public void removeAdapter(String model, String name) {
    change(model, name, null);
  }

  private void change(String model, String name, String path) {
    Call.status(c -> serve().trl_server_set_adapter(c.of(this), c.text(model), c.text(name), c.text(path), c.error()));
  }

  /**
   * Puts a model to sleep, as deep as level 1 or 2: requests are refused until wakeUp.
   *
   * @param mode what becomes of requests that run: "abort" (as null), "wait" or "keep"
   */
  public void sleep(String model, int level, String mode) {
    Call.status(c -> serve().trl_server_sleep(c.of(this), c.text(model), level, c.text(mode), c.error()));
  }

  /** Wakes a model; tags is what is asked for again, "weights" or "kv_cache", or null for all. */
  public void wakeUp(String model, String tags) {
    Call.status(c -> serve().trl_server_wake_up(c.of(this), c.text(model), c.text(tags), c.error()));
  }
}
