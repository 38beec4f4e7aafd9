package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Pointer;
import java.nio.file.Path;
import java.util.Map;
import libtrl.Constants.Status;

/** A run of the method that its configuration names. Where a runtime or options can be given, null stands for none. */
public final class Trainer extends Handle {
  /** Hears of events; gives 0 to continue, or bits of Constants.Answer. */
  public interface EventFunction {
    int event(Event event) throws Exception;
  }

  /**
   * Answers for the rows of a rollout: Constants.Status.OK when all of them are set, or LATER, and another thread sets them and
   * calls finish.
   */
  public interface RolloutFunction {
    int answer(Rollout rollout) throws Exception;
  }

  /** The memory, time and disk that a run needs: as numbers, and as text. */
  public record Plan(Map<String, Object> numbers, String text) {}

  private static final Abi.trl_event_fn EVENT = (user, kind, metrics) ->
      (int) Functions.<EventFunction>run(user, Status.E_CALLBACK, function -> {
        if (function == null) return 0; // called nevertheless, so that what a log function has thrown ends the run
        Event event = new Event(kind, metrics);
        try {
          return function.event(event);
        } finally {
          event.end();
        }
      });

  private static final Abi.trl_rollout_fn ROLLOUT = (user, pointer) ->
      (int) Functions.<RolloutFunction>run(user, Status.E_CALLBACK, function -> answered(function, pointer));

  /** The library is told why a reward failed, and decides whether that ends the call. */
  private static final Abi.trl_rollout_fn REWARD = (user, pointer) ->
      (int) Functions.<RolloutFunction>run(user, Status.E_CALLBACK, function -> {
        try {
          return answered(function, pointer);
        } catch (Exception thrown) {
          try {
            new Rollout(pointer).finish(thrown.toString().replace('\0', ' '));
          } catch (TrlException over) {
            throw thrown;
          }
          Functions.Frame frame = Functions.FRAME.get();
          if (frame.reward == null) frame.reward = thrown;
          return Status.LATER;
        }
      });

  private static int answered(RolloutFunction function, Pointer pointer) throws Exception {
    Rollout rollout = new Rollout(pointer);
    int answer = Status.OK;
    try {
      answer = function.answer(rollout);
      return answer;
    } finally {
      if (answer != Status.LATER) rollout.end();
    }
  }

  public Trainer(Config config, Dataset train) {
    this(null, config, train, null);
  }

  /** The evaluation rows may be null. */
  public Trainer(TrlRuntime runtime, Config config, Dataset train, Dataset evaluation) {
    super(Call.create(lib()::trl_trainer_destroy, c -> lib().trl_trainer_create(c.of(runtime), c.of(config), c.of(train),
        c.of(evaluation), c.out(), c.error())), lib()::trl_trainer_destroy, runtime, train, evaluation);
  }

  /** The memory, time and disk that a trainer of this configuration needs. The rows may be null. */
  @SuppressWarnings("unchecked")
  public static Plan plan(TrlRuntime runtime, Config config, Dataset train) {
    try (TrlRuntime own = runtime == null ? new TrlRuntime() : null; Call call = new Call()) {
      TrlRuntime owner = runtime == null ? own : runtime; // of the texts, until they are copied
      call.run(c -> lib().trl_trainer_plan(c.of(owner), c.of(config), c.of(train), c.out(0), c.out(1), c.error()));
      return new Plan((Map<String, Object>) Json.parse(call.gotten(0)), call.gotten(1));
    }
  }

  /** Checks a run as a trainer does before it reads rows and weights, and creates nothing. */
  public static void check(TrlRuntime runtime, Config config) {
    Call.status(c -> lib().trl_trainer_check(c.of(runtime), c.of(config), c.error()));
  }

  /** Trains to the end, or until the function answers Constants.Answer.STOP; false if the run was complete before. */
  public boolean train(EventFunction onEvent) {
    return Call.status(c -> lib().trl_trainer_train(c.of(this), EVENT, c.during(onEvent), c.error())) != Status.END;
  }

  public boolean train() {
    return train(null);
  }

  /** One optimizer step and its numbers; null when nothing is left. */
  public Map<String, Double> step() {
    return Call.metrics(c -> lib().trl_trainer_step(c.of(this), c.out(), c.error()));
  }

  /** The first half of a step, after which gradients can be read, and its numbers; null when nothing is left. */
  public Map<String, Double> backward() {
    return Call.metrics(c -> lib().trl_trainer_backward(c.of(this), c.out(), c.error()));
  }

  /** The second half of a step, with the optimizer's update or without it, and the numbers of the step. */
  public Map<String, Double> update(boolean apply) {
    return Call.metrics(c -> lib().trl_trainer_update(c.of(this), apply ? 1 : 0, c.out(), c.error()));
  }

  /** Sets the learning rate of the next steps; NaN: that of the schedule again. */
  public void setLearningRate(double rate) {
    Call.status(c -> lib().trl_trainer_set_learning_rate(c.of(this), rate, c.error()));
  }

  /** Evaluates on the evaluation rows. */
  public Map<String, Double> evaluate() {
    return evaluate(null);
  }

  /** Evaluates on other rows. */
  public Map<String, Double> evaluate(Dataset rows) {
    return Call.metrics(c -> lib().trl_trainer_evaluate(c.of(this), c.of(rows), c.out(), c.error()));
  }

  /** Saves the model, or what save.kind says; null: into output_dir. */
  public void save(String path, Config options) {
    Call.status(c -> lib().trl_trainer_save(c.of(this), c.text(path), c.of(options), c.error()));
  }

  public void save(Path path) {
    save(path.toString(), null);
  }

  public void save() {
    save(null, null);
  }

  /** Adds a function that rewards the rows of a rollout (setReward). */
  public void addReward(String name, RolloutFunction function) {
    Call.status(c -> lib().trl_trainer_add_reward(c.of(this), c.text(name), REWARD, c.keep(functions, function),
        Functions.FORGET, c.error()));
  }

  /** Has a function write the completions of a rollout (setCompletion). */
  public void setRollout(RolloutFunction function) {
    Call.status(c -> lib().trl_trainer_set_rollout(c.of(this), ROLLOUT, c.keep(functions, function), Functions.FORGET,
        c.error()));
  }

  /** Has a function answer the tools that completions call (setValue). */
  public void setTools(RolloutFunction function) {
    Call.status(c -> lib().trl_trainer_set_tools(c.of(this), ROLLOUT, c.keep(functions, function), Functions.FORGET, c.error()));
  }

  /** Ends the call that runs on this trainer, or else the next one, with TrlException.Cancelled; from any thread. */
  public void cancel() {
    try (Call call = new Call()) {
      lib().trl_trainer_cancel(call.of(this));
    }
  }

  /** Holds the call that runs on this trainer, or else the next one, until resume; from any thread. */
  public void pause() {
    try (Call call = new Call()) {
      lib().trl_trainer_pause(call.of(this));
    }
  }

  public void resume() {
    try (Call call = new Call()) {
      lib().trl_trainer_resume(call.of(this));
    }
  }

  @Override
  void interrupt(Pointer pointer) {
    lib().trl_trainer_cancel(pointer);
  }

  /** The state of the training, as in trainer_state.json. */
  public Map<String, Object> describe() {
    return Call.object(c -> lib().trl_trainer_describe(c.of(this), c.out(), c.error()));
  }

  /** Integers by a name: global_step, max_steps, vocab_size, parameter_count, trained_parameter_count, eos_token_ids. */
  public long[] integers(String name) {
    long capacity = 8;
    while (true) {
      try (Call call = new Call()) {
        long room = capacity;
        Pointer values = call.room(8 * room);
        call.run(c -> lib().trl_trainer_get_integers(c.of(this), c.text(name), values, room, c.out(), c.error()));
        capacity = call.number(0);
        if (capacity <= room) return capacity == 0 ? new long[0] : values.getLongArray(0, (int) capacity);
      }
    }
  }

  /** The model that is trained: every step is seen at once. */
  public Model model() {
    return new Model(this);
  }

  /** A generator that shares the weights of the run. */
  public Generator generator() {
    try (Model model = model()) {
      return model.generator();
    }
  }
}
