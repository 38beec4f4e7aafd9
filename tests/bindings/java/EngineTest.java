package libtrl;

import static libtrl.Check.MODEL;
import static libtrl.Check.SOURCE;
import static libtrl.Check.equal;
import static libtrl.Check.has;
import static libtrl.Check.text;
import static libtrl.Check.that;
import static libtrl.Check.thrown;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import libtrl.Constants.Answer;
import libtrl.Constants.EventKind;
import libtrl.Constants.LogLevel;
import libtrl.Constants.Status;
import libtrl.Constants.TensorForm;
import libtrl.Constants.TextForm;
import libtrl.Constants.WriteKind;

/** The binding for Java with the engine. With the tests of HostTest, every function of the header is called. */
public final class EngineTest {
  private static final List<Map<String, Object>> ROWS =
      List.of(text("the kernel waits"), text("the driver wakes"), text("a page is read"), text("a lock is taken"));
  private static final List<Map<String, Object>> SUMS =
      IntStream.range(0, 4).mapToObj(a -> Map.<String, Object>of("prompt", a + " + 1 =", "target", a + 1)).toList();
  private static final List<Map<String, String>> PAIRS = List.of(Map.of("prompt", "one", "chosen", " two", "rejected", " four"),
      Map.of("prompt", "two", "chosen", " three", "rejected", " six"));

  private EngineTest() {}

  public static void main(String[] names) {
    if (names.length == 0) Check.run(HostTest.class);
    Check.run(EngineTest.class, names);
    List<String> left = names.length == 0 ? Check.left() : List.of();
    if (!left.isEmpty()) throw new AssertionError("no test calls " + left);
    Check.end();
  }

  private static Config config(Object... more) {
    try {
      Config config = Config.of("model_name_or_path", MODEL, "output_dir", Check.folder(), "max_steps", 4,
          "per_device_train_batch_size", 2, "save_strategy", "no", "logging_strategy", "no", "report_to", "none", "bf16", false);
      for (int i = 0; i < more.length; i += 2) config.put((String) more[i], more[i + 1]);
      return config;
    } catch (IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  private static Trainer trainer(Object... more) {
    return new Trainer(config(more), Dataset.ofRows(ROWS));
  }

  private static Trainer online(List<Trainer.RolloutFunction> rewards, Object... more) {
    Config config = config("method", "grpo", "num_generations", 2, "max_completion_length", 5, "max_steps", 2);
    for (int i = 0; i < more.length; i += 2) config.put((String) more[i], more[i + 1]);
    Trainer trainer = new Trainer(config, Dataset.ofRows(SUMS));
    for (int i = 0; i < rewards.size(); i++) trainer.addReward("reward" + i, rewards.get(i));
    return trainer;
  }

  private static int all(Rollout rollout, double reward) {
    rollout.setRewards(DoubleStream.generate(() -> reward).limit(rollout.size()).toArray());
    return Status.OK;
  }

  private static Thread start(Check.Body body) {
    Thread thread = new Thread(() -> {
      try {
        body.run();
      } catch (Throwable thrown) {
        throw Functions.<RuntimeException>again(thrown);
      }
    });
    thread.start();
    return thread;
  }

  private static Object step(Trainer trainer) {
    return trainer.describe().get("global_step");
  }

  // ---- training ----

  public static void eventsTellAndAreAnswered() {
    Trainer trainer = new Trainer(null, config(), Dataset.ofRows(ROWS), Dataset.ofRows(ROWS));
    List<Event> events = new ArrayList<>();
    that(trainer.train(event -> {
      events.add(event);
      if (event.kind() == EventKind.SAVE) {
        that(Files.isDirectory(Path.of(event.text("path"))));
        equal(null, event.text("completions"));
      }
      if (event.kind() != EventKind.STEP) return 0;
      return event.metric("step") == 2 ? Answer.SAVE | Answer.EVALUATE : event.metric("step") == 3 ? Answer.STOP : 0;
    }));
    List<Integer> kinds = events.stream().map(Event::kind).toList();
    equal(3L, kinds.stream().filter(kind -> kind == EventKind.STEP).count());
    that(kinds.contains(EventKind.SAVE) && kinds.contains(EventKind.EVALUATE));
    equal(4.0, events.get(0).metric("max_steps"));
    has(thrown(IllegalStateException.class, () -> events.get(0).text("path")).getMessage(), "while the function");
    that(trainer.train());
    that(!trainer.train());
    equal(4L, step(trainer));
  }

  public static void anExceptionEndsTheCallAndTheNextOneResumes() {
    Trainer trainer = trainer();
    Check.Oops oops = new Check.Oops("in an event");
    equal(oops, thrown(Check.Oops.class, () -> trainer.train(event -> {
      if (event.kind() == EventKind.STEP) throw oops;
      return 0;
    })));
    equal(1L, step(trainer));
    TrlException.Callback error = thrown(TrlException.Callback.class,
        () -> trainer.train(event -> event.kind() == EventKind.STEP ? -7 : 0));
    equal(List.of(Status.E_CALLBACK, -7), List.of(error.status(), error.callbackCode()));
    that(trainer.train());
  }

  /** It has no status: the next function of the call ends it. */
  public static void anExceptionOfTheLogEndsARun() {
    TrlRuntime runtime = new TrlRuntime();
    Trainer trainer = new Trainer(runtime, config("max_steps", 10000), Dataset.ofRows(ROWS), null);
    runtime.setLog((level, component, line) -> {
      throw new Check.Oops(component);
    });
    thrown(Check.Oops.class, trainer::train);
    that((Long) step(trainer) < 10);
    runtime.setLog(null);
    List<String> lines = new ArrayList<>();
    runtime.setLog((level, component, line) -> {
      if (level == LogLevel.INFO) lines.add(line);
    });
    new Trainer(runtime, config("max_steps", 1), Dataset.ofRows(ROWS), null).train();
    that(!lines.isEmpty());
    that(runtime.describe().containsKey("engine"));
  }

  public static void cancelFromAnotherThread() throws Exception {
    Trainer trainer = trainer("max_steps", 100000);
    CountDownLatch begun = new CountDownLatch(1);
    Thread thread = start(() -> {
      begun.await();
      trainer.cancel();
    });
    thrown(TrlException.Cancelled.class, () -> trainer.train(event -> {
      begun.countDown();
      return 0;
    }));
    thread.join();
    double before = (Long) step(trainer);
    equal(before + 1, trainer.step().get("step"));
  }

  public static void otherThreadsRunMeanwhile() throws Exception {
    Trainer trainer = trainer("max_steps", 20);
    trainer.pause();
    Object[] seen = {null};
    Thread thread = start(() -> {
      Thread.sleep(100);
      try {
        seen[0] = step(trainer);
      } finally {
        trainer.resume();
      }
    });
    trainer.train();
    thread.join();
    equal(List.of(0L, 20L), List.of(seen[0], step(trainer)));
  }

  public static void aSecondCallIsBusy() {
    Trainer trainer = trainer("max_steps", 3);
    trainer.train(event -> {
      thrown(TrlException.Busy.class, trainer::evaluate);
      return 0;
    });
  }

  public static void aCloseEndsTheCallOfAnotherThread() throws Exception {
    Trainer trainer = trainer("max_steps", 100000);
    CountDownLatch begun = new CountDownLatch(1);
    Thread thread = start(() -> {
      begun.await();
      trainer.close();
    });
    thrown(TrlException.Cancelled.class, () -> trainer.train(event -> {
      begun.countDown();
      return 0;
    }));
    thread.join();
    has(thrown(IllegalStateException.class, trainer::step).getMessage(), "this Trainer is closed");
  }

  public static void stepsEvaluationsAndSaves() throws Exception {
    Dataset evaluation = Dataset.ofRows(ROWS);
    Trainer trainer = new Trainer(null, config("max_steps", 2), Dataset.ofRows(ROWS), evaluation);
    that(trainer.step().containsKey("loss"));
    that(trainer.evaluate().containsKey("eval_loss"));
    Path folder = Check.folder();
    trainer.save(folder.resolve("checkpoint").toString(), Config.of("save.kind", "checkpoint"));
    trainer.save(folder.resolve("model"));
    trainer.save();
    Map<String, Double> last = trainer.step();
    equal(null, trainer.step());
    Trainer resumed = trainer("max_steps", 2, "resume_from_checkpoint", folder.resolve("checkpoint"));
    equal(last, resumed.step());
    Evaluator evaluator = new Evaluator(config("model_name_or_path", folder.resolve("model"), "sample_prompts", List.of("the"),
        "sample_max_new_tokens", 2));
    that(evaluator.evaluate(evaluation).containsKey("eval_loss"));
    equal(1, evaluator.complete().size());
  }

  public static void otherRowsAreEvaluated() {
    Dataset some = Dataset.ofRows(ROWS.subList(0, 2)), others = Dataset.ofRows(ROWS.subList(2, 4));
    Trainer trainer = new Trainer(null, config(), Dataset.ofRows(ROWS), some);
    Object own = trainer.evaluate().get("eval_loss");
    that(!own.equals(trainer.evaluate(others).get("eval_loss")));
    equal(own, trainer.evaluate(some).get("eval_loss"));
  }

  public static void halvesOfAStep() {
    Trainer halves = trainer("max_steps", 2), whole = trainer("max_steps", 2);
    thrown(TrlException.InvalidArgument.class, () -> halves.update(true));
    that(halves.backward().containsKey("loss"));
    try (Model model = halves.model()) {
      Map<String, Object> trained = model.tensors().stream().filter(tensor -> tensor.get("gradient").equals(true)).findFirst().orElseThrow();
      try (Tensor gradient = model.read((String) trained.get("name"), TensorForm.GRADIENT)) {
        equal(trained.get("shape"), IntStream.range(0, gradient.shape().length).mapToObj(i -> gradient.shape()[i]).toList());
      }
    }
    equal(whole.step(), halves.update(true));
    whole.setLearningRate(0.125);
    equal(0.125, whole.step().get("learning_rate"));
    halves.backward();
    equal(2.0, halves.update(false).get("step"));
    equal(null, halves.backward());
    thrown(TrlException.InvalidArgument.class, () -> whole.setLearningRate(-1));
  }

  public static void integers() {
    Trainer trainer = trainer();
    equal(new long[] {4}, trainer.integers("max_steps"));
    equal(new long[] {0}, trainer.integers("global_step"));
    that(trainer.integers("parameter_count")[0] >= trainer.integers("trained_parameter_count")[0]);
    that(trainer.integers("eos_token_ids").length > 0);
    thrown(TrlException.NotFound.class, () -> trainer.integers("no such name"));
  }

  public static void plansAndChecks() {
    Trainer.Plan plan = Trainer.plan(null, config(), Dataset.ofRows(ROWS));
    that((Long) plan.numbers().get("peak_bytes") > 0);
    has(plan.text(), "memory");
    Trainer.check(null, config());
    equal("resume_from_checkpoint", thrown(TrlException.NotFound.class,
        () -> Trainer.check(new TrlRuntime(), config("resume_from_checkpoint", "/nowhere"))).key());
  }

  public static void anyOrderOfDestruction() {
    List<String> names = List.of("runtime", "rows", "trainer", "model", "generator");
    for (int first = 0; first < names.size(); first++) {
      for (int stride = 1; stride < names.size(); stride++) {
        TrlRuntime runtime = new TrlRuntime();
        Dataset rows = Dataset.ofIterable(runtime, ROWS, null);
        Trainer trainer = new Trainer(runtime, config("max_steps", 6), rows, null);
        Model model = trainer.model();
        Generator generator = model.generator();
        Map<String, Handle> things =
            new HashMap<>(Map.of("runtime", runtime, "rows", rows, "trainer", trainer, "model", model, "generator", generator));
        for (int i = 0; i < names.size(); i++) {
          things.remove(names.get((first + i * stride) % names.size())).close();
          if (things.containsKey("trainer")) trainer.step();
          if (things.containsKey("generator")) generator.generate("the", Config.of("generate.max_new_tokens", 1));
        }
      }
    }
  }

  /** Functions that hold what they were given to. */
  private static final class App {
    private final List<String> lines = new ArrayList<>();
    private final Trainer trainer;
    private final Generator generator;

    App() {
      TrlRuntime runtime = new TrlRuntime();
      runtime.setLog((level, component, line) -> lines.add(line));
      trainer = new Trainer(runtime, config("method", "grpo", "num_generations", 2, "max_completion_length", 3),
          Dataset.ofRows(SUMS), null);
      trainer.addReward("mine", this::reward);
      generator = trainer.generator();
      trainer.step();
    }

    private int reward(Rollout rollout) {
      return all(rollout, trainer != null && generator != null ? 1 : 0);
    }
  }

  private static WeakReference<App> app() {
    return new WeakReference<>(new App());
  }

  public static void circlesThroughTheLibraryAreCollected() throws Exception {
    WeakReference<App> alive = app();
    Check.collected(() -> alive.get() == null);
    Check.collected(() -> Functions.count() == 0);
  }

  // ---- the process ----

  /** A program that ends while a thread trains: ARGUMENT is how. */
  public static final class Ends {
    private Ends() {}

    public static void main(String[] arguments) throws Exception {
      Trainer trainer = new Trainer(config("max_steps", 1_000_000), Dataset.ofIterable(ROWS));
      CountDownLatch begun = new CountDownLatch(1);
      Thread thread = new Thread(() -> trainer.train(arguments[0].equals("silent") ? null : event -> {
        begun.countDown();
        return 0;
      }));
      thread.setDaemon(true);
      thread.start();
      if (!arguments[0].equals("silent")) begun.await();
      Thread.sleep(50);
      System.out.print(System.currentTimeMillis());
      System.out.flush();
      if (arguments[0].equals("exit")) System.exit(7);
    }
  }

  public static void aProcessEndsWhileAThreadTrains() throws Exception {
    for (String how : List.of("silent", "return", "exit")) {
      Check.Said said = Check.java(null, Loader.path(), "libtrl.EngineTest$Ends", how);
      equal("", said.err());
      equal(how.equals("exit") ? 7 : 0, said.code());
      System.out.println("a process ends (" + how + ") in " + (System.currentTimeMillis() - Long.parseLong(said.out())) + " ms");
    }
  }

  private static MappedByteBuffer truncated() throws IOException {
    Path path = Files.write(Check.folder().resolve("mapped"), new byte[1 << 16]);
    try (FileChannel channel = FileChannel.open(path, java.nio.file.StandardOpenOption.READ, java.nio.file.StandardOpenOption.WRITE)) {
      MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_ONLY, 0, 1 << 16);
      channel.truncate(0);
      return mapped;
    }
  }

  /** Reads where nothing is. The JVM throws its error a little later, when the thread asks it for something. */
  private static int touch(MappedByteBuffer mapped) {
    int read = mapped.get(1 << 15);
    for (int i = 0; i < 10; i++) read += new byte[i].length;
    return read;
  }

  /** The JVM has a use for SIGBUS, too: a buffer whose file is shorter by now is an InternalError, also within a call. */
  public static void faultsOfMappedFilesGoToTheirOwner() throws Exception {
    MappedByteBuffer mapped = truncated();
    thrown(InternalError.class, () -> touch(mapped));
    Path model = Files.createDirectory(Check.folder().resolve("model"));
    try (Stream<Path> files = Files.list(MODEL)) {
      for (Path file : (Iterable<Path>) files::iterator) Files.copy(file, model.resolve(file.getFileName()));
    }
    TrlRuntime runtime = new TrlRuntime();
    int[] faults = {0};
    Evaluator evaluator = new Evaluator(runtime, config("model_name_or_path", model));
    runtime.setProgress((phase, done, total) -> {
      thrown(InternalError.class, () -> touch(mapped));
      faults[0]++;
      return 0;
    });
    that(evaluator.evaluate(Dataset.ofRows(ROWS)).containsKey("eval_loss"));
    that(faults[0] > 0);
    runtime.setProgress((phase, done, total) -> touch(mapped));
    thrown(InternalError.class, () -> evaluator.evaluate(Dataset.ofRows(ROWS)));
    runtime.setProgress(null);
    try (RandomAccessFile weights = new RandomAccessFile(model.resolve("model.safetensors").toFile(), "rw")) {
      weights.setLength(4096);
    }
    has(thrown(TrlException.InputOutput.class, () -> evaluator.evaluate(Dataset.ofRows(ROWS))).getMessage(), "model.safetensors");
    thrown(InternalError.class, () -> touch(mapped)); // the JVM's handler is in place again
  }

  /** The program of the binding's README. */
  public static void theProgramOfTheReadme() throws Exception {
    String page = Files.readString(SOURCE.resolve("bindings/java/README.md"));
    String program = page.split("```java\n")[1].split("```")[0];
    Path folder = Check.folder(), source = folder.resolve("Program.java"), out = folder.resolve("out");
    Files.writeString(source, program.replace("\"smollm2\"", Json.write(MODEL)).replace("\"out\"", Json.write(out)));
    Check.Said said = Check.java(null, Loader.path(), source.toString());
    equal("", said.err());
    has(said.out(), "step 20: ");
    that(Files.exists(out.resolve("model.safetensors")));
  }

  // ---- generation ----

  public static void promptsTogether() {
    try (Model model = new Model(MODEL); Generator generator = model.generator(new Tokenizer(MODEL))) {
      List<Generator.Token> seen = new ArrayList<>();
      List<Completion> completions = generator.generate(List.of("the kernel", "a page"),
          Config.of("generate.max_new_tokens", 4, "generate.num_return_sequences", 2, "generate.logprobs", 0,
              "generate.temperature", 1), token -> {
                seen.add(token);
                return 0;
              });
      equal(4, completions.size());
      for (int i = 0; i < 4; i++) {
        Completion completion = completions.get(i);
        long number = i;
        equal("length", completion.finishReason());
        equal(completion.tokenIds(),
            seen.stream().filter(token -> token.completion() == number).mapToInt(Generator.Token::id).toArray());
        equal(completion.details().get("logprobs"), seen.stream().filter(token -> token.completion() == number)
            .map(token -> (Object) token.logProbability()).toList());
      }
      equal(List.of(), generator.generate(List.of(), null, null));
      seen.clear();
      generator.generate(List.of("the"), Config.of("generate.max_new_tokens", 2), token -> {
        seen.add(token);
        return 0;
      });
      that(Double.isNaN(seen.get(0).logProbability()));
    }
  }

  public static void aResultEndsACompletionAndAnExceptionTheCall() {
    try (Model model = new Model(MODEL); Generator generator = model.generator()) {
      equal(1, generator.generate(List.of("the"), Config.of("generate.max_new_tokens", 9), token -> 1).get(0).tokenIds().length);
      thrown(Check.Oops.class, () -> generator.generate(List.of("the"), null, token -> {
        throw new Check.Oops("at a token");
      }));
      equal(3, generator.generate("the", Config.of("generate.max_new_tokens", 3)).tokenIds().length);
    }
  }

  public static void requests() {
    try (Model model = new Model(MODEL); Generator generator = model.generator()) {
      long first = generator.add("the kernel", Config.of("generate.max_new_tokens", 3, "generate.keep", true));
      long second = generator.add(new int[] {1, 2, 3}, Config.of("generate.max_new_tokens", 50));
      List<Integer> tokens = new ArrayList<>();
      while (tokens.size() < 6) {
        that(generator.step(token -> {
          tokens.add(token.id());
          return 0;
        }));
      }
      equal("length", generator.take(first, 1).get(0).finishReason());
      generator.extend(first, " waits", Config.of("generate.max_new_tokens", 2));
      generator.cancel(second, 1);
      while (generator.step()) continue;
      equal(2, generator.take(first, 1).get(0).tokenIds().length);
      generator.extend(first, new int[] {5, 6}, Config.of("generate.max_new_tokens", 1));
      while (generator.step()) continue;
      equal("cancelled", generator.take(second, 1).get(0).finishReason());
      generator.cancel(first, 1);
      generator.releaseMemory();
      thrown(TrlException.NotFound.class, () -> generator.take(second, 1));
    }
  }

  public static void whatAFunctionThrowsInAStepEndsItsCompletionAlone() {
    try (Model model = new Model(MODEL); Generator generator = model.generator()) {
      Config three = Config.of("generate.max_new_tokens", 3, "generate.ignore_eos", true);
      long first = generator.add("the kernel", three);
      long second = generator.add("a page", three);
      long third = generator.add("the lock", three);
      List<Long> told = new ArrayList<>();
      Generator.TokenFunction fail = token -> {
        told.add(token.completion());
        if (token.completion() != third) throw new Check.Oops("at a token of " + token.completion());
        return 0;
      };
      Check.Oops oops = thrown(Check.Oops.class, () -> generator.step(fail));
      equal("at a token of " + told.get(0), oops.getMessage()); // the first that was thrown
      while (generator.step(fail)) continue;
      equal(List.of(first, second, third, third, third), told.stream().sorted().toList());
      for (long number : List.of(first, second)) {
        Completion ended = generator.take(number, 1).get(0);
        equal("cancelled", ended.finishReason());
        equal(1, ended.tokenIds().length);
      }
      Completion whole = generator.take(third, 1).get(0);
      equal("length", whole.finishReason());
      equal(3, whole.tokenIds().length);
    }
  }

  public static void streams() {
    try (Model model = new Model(MODEL); Generator generator = model.generator()) {
      Config six = Config.of("generate.max_new_tokens", 6);
      Completion whole = generator.generate("the kernel", six);
      List<Integer> ids = new ArrayList<>();
      StringBuilder text = new StringBuilder();
      for (Generator.Token token : generator.stream("the kernel", six)) {
        ids.add(token.id());
        text.append(token.text());
      }
      equal(whole.tokenIds(), ids.stream().mapToInt(id -> id).toArray());
      equal(whole.text(), text.toString());
      try (Generator.Stream stream = generator.stream(whole.tokenIds(), six)) {
        stream.next();
      }
      that(!generator.step());
    }
  }

  public static void describesConvertsAndSaves() throws Exception {
    try (Model model = new Model(MODEL)) {
      Path target = Check.folder().resolve("model.gguf"), again = Check.folder();
      Model.convert(null, MODEL, target, Config.of("convert.type", "f32"));
      try (Model converted = new Model(target)) {
        equal(model.describe().get("parameters"), converted.describe().get("parameters"));
        converted.save(again.resolve("again"));
      }
      that(Files.exists(again.resolve("again/config.json")));
      thrown(TrlException.Unsupported.class, () -> model.score(List.of("text"), TextForm.ANSWER, null));
      thrown(TrlException.NotFound.class, () -> new Model(Path.of("/nowhere")));
    }
  }

  public static void adapters() throws Exception {
    Trainer trainer = trainer("use_peft", true, "lora_r", 2, "max_steps", 2, "learning_rate", 0.05, "lora_target_modules", "all-linear");
    trainer.train();
    Path folder = Check.folder().resolve("adapter");
    trainer.save(folder);
    try (Model model = trainer.model()) {
      model.addAdapter("other", folder);
      trainer.generator().generate("the", Config.of("generate.adapter", "other", "generate.max_new_tokens", 1));
      model.removeAdapter("other");
    }
    try (Model model = new Model(MODEL)) {
      model.addAdapter("mine", folder);
      model.useAdapter("mine");
      model.mergeAdapter("mine");
      model.mergeAdapter(null);
      model.useAdapter(null);
      model.removeAdapter("mine");
      thrown(TrlException.NotFound.class, () -> model.useAdapter("mine"));
    }
  }

  public static void scores() throws Exception {
    Trainer trainer = new Trainer(config("method", "reward", "max_steps", 1), Dataset.ofRows(PAIRS));
    trainer.train();
    Path folder = Check.folder().resolve("scorer");
    trainer.save(folder);
    try (Model scorer = new Model(folder)) {
      float[] both = scorer.score(List.of("one two", "one\0three"), TextForm.ANSWER, null);
      that(Math.abs(both[0] - scorer.score(List.of("one two"), TextForm.ANSWER, null)[0]) < 1e-5);
      that(Math.abs(both[0] - both[1]) > 1e-6);
      equal(0, scorer.score(List.of(), TextForm.ANSWER, null).length);
    }
  }

  // ---- tensors and files of the host ----

  public static void tensorsAreReadAndWritten() {
    Trainer trainer = trainer();
    Model model = trainer.model();
    Set<String> names = new HashSet<>();
    for (Map<String, Object> tensor : model.tensors()) names.add((String) tensor.get("name"));
    String name = names.stream().filter(each -> each.endsWith("model.norm.weight")).findFirst().orElseThrow();
    Tensor copy = model.read(name, TensorForm.COPY), view = model.read(name, TensorForm.VIEW);
    equal("float32", copy.dtype());
    that(view.isReadOnly() && !copy.isReadOnly() && view.buffer().isReadOnly());
    equal(copy.floats(), view.floats());
    float[] values = copy.floats();
    values[0] = 2.5f;
    model.write(name, Tensor.of(values, copy.shape()));
    equal(2.5f, model.read(name, TensorForm.COPY).floats()[0]);
    ByteBuffer heap = ByteBuffer.allocate(4 * values.length).order(ByteOrder.nativeOrder());
    heap.putFloat(0, 3.5f);
    model.write(name, Tensor.of(heap, "float32", copy.shape()));
    equal(3.5f, model.read(name, TensorForm.COPY).floats()[0]);
    copy.buffer().putFloat(0, 4.5f);
    model.write(name, copy);
    equal(4.5f, model.read(name, TensorForm.COPY).buffer(0, 4).getFloat());
    ByteBuffer half = ByteBuffer.allocateDirect(2 * values.length).order(ByteOrder.nativeOrder());
    for (int i = 0; i < values.length; i++) half.putShort(2 * i, (short) 0x4020); // 2.5 of bfloat16
    model.write(name, Tensor.of(half, "bfloat16", copy.shape()));
    equal(2.5f, model.read(name, TensorForm.COPY).floats()[values.length - 1]);
    thrown(TrlException.NotFound.class, () -> model.read("no such tensor", TensorForm.COPY));
    thrown(TrlException.InvalidArgument.class, () -> model.write(name, Tensor.of(new float[] {1, 2}, 2)));
    thrown(IllegalArgumentException.class, () -> Tensor.of(new float[] {1, 2}, 3));
    thrown(IllegalArgumentException.class, () -> Tensor.of(heap, "float33", 1));
    ByteBuffer kept = view.buffer().slice().order(ByteOrder.nativeOrder());
    view = null;
    System.gc();
    that(Float.isFinite(kept.getFloat(0))); // the buffer holds the memory
    copy.close();
    copy.close();
    thrown(IllegalStateException.class, copy::buffer);
    that(trainer.step() != null);
  }

  public static void aModelInFilesOfTheHost() throws Exception {
    TrlRuntime runtime = new TrlRuntime();
    List<String> asked = new ArrayList<>();
    Map<String, ByteBuffer> saved = new HashMap<>();
    List<Integer> kinds = new ArrayList<>();
    runtime.mount("java-in", HostTest.files(MODEL, asked), null);
    runtime.mount("java-out", null, (what, file, offset, data) -> {
      kinds.add(what);
      if (what != WriteKind.DATA) return;
      ByteBuffer before = saved.getOrDefault(file, ByteBuffer.allocate(0));
      equal((long) before.limit(), offset);
      saved.put(file, ByteBuffer.allocate(before.limit() + data.remaining()).put(before.rewind()).put(data).flip());
    });
    try (Model model = new Model(runtime, "host://java-in", null); Model file = new Model(MODEL)) {
      equal(file.describe().get("parameters"), model.describe().get("parameters"));
      model.save("host://java-out/model", null);
    }
    that(saved.keySet().stream().anyMatch(file -> file.endsWith("model.safetensors")) && kinds.contains(WriteKind.DONE));
    runtime.mount("java-fails", null, (what, file, offset, data) -> {
      throw new Check.Oops("at a write");
    });
    Trainer trainer = new Trainer(runtime, config("max_steps", 1), Dataset.ofRows(ROWS), null);
    thrown(Check.Oops.class, () -> trainer.save("host://java-fails", null));
    equal(1.0, trainer.step().get("step"));
  }

  // ---- rewards, rollouts and tools ----

  public static void rewardsAreSetOrGivenLater() {
    AtomicReference<Rollout> answered = new AtomicReference<>();
    Trainer trainer = online(List.of(rollout -> {
      equal(rollout.get(0).get("columns"), rollout.get(1).get("columns"));
      thrown(IndexOutOfBoundsException.class, () -> rollout.get(rollout.size()));
      rollout.log("mine", 2.0);
      rollout.setRewards(rollout.rows().stream().mapToDouble(row -> ((List<?>) row.get("completion_ids")).size()).toArray());
      return Status.OK;
    }, rollout -> {
      for (int i = 0; i < rollout.size(); i++) {
        rollout.setReward(i, i == 0 ? 1 : Double.NaN);
        rollout.setValue(i, "note", Map.of("index", i));
      }
      return Status.OK;
    }, rollout -> {
      start(() -> {
        all(rollout, 0.5);
        rollout.finish();
        answered.set(rollout);
      });
      return Status.LATER;
    }), "logging_strategy", "steps", "logging_steps", 1);
    trainer.train();
    Map<?, ?> record = (Map<?, ?>) ((List<?>) trainer.describe().get("log_history")).get(0);
    equal(0.5, record.get("rewards/reward2/mean"));
    equal(2.0, record.get("mine"));
    has(thrown(IllegalStateException.class, () -> answered.get().size()).getMessage(), "this rollout is over");
  }

  public static void anExceptionOfARewardCanBeTriedAgain() {
    boolean[] failing = {true};
    Trainer trainer = online(List.of(rollout -> {
      if (!failing[0]) return all(rollout, 1);
      failing[0] = false;
      throw new Check.Oops("in a reward");
    }));
    thrown(Check.Oops.class, trainer::step);
    equal(1.0, trainer.step().get("step"));
    Trainer later = online(List.of(rollout -> {
      start(() -> rollout.finish("the judge is away"));
      return Status.LATER;
    }));
    has(thrown(TrlException.Callback.class, later::step).getMessage(), "the judge is away");
    thrown(TrlException.InvalidConfig.class, () -> trainer.addReward("reward0", rollout -> Status.OK));
    thrown(TrlException.InvalidArgument.class, () -> trainer().addReward("reward", rollout -> Status.OK));
  }

  public static void anExceptionOfARewardMayCountAsNone() {
    int[] asked = {0};
    Trainer trainer = online(List.of(rollout -> {
      asked[0]++;
      throw new Check.Oops("in a reward");
    }, rollout -> all(rollout, 1)), "on_reward_error", "none", "logging_strategy", "steps", "logging_steps", 1);
    trainer.train();
    equal(2, asked[0]);
    equal(1.0, ((Map<?, ?>) ((List<?>) trainer.describe().get("log_history")).get(1)).get("rewards/reward1/mean"));
  }

  public static void theHostWritesCompletions() {
    List<Object> written = new ArrayList<>();
    Trainer trainer = online(List.of(rollout -> {
      for (Map<String, Object> row : rollout.rows()) written.add(row.get("completion_ids"));
      rollout.setRewards(rollout.rows().stream()
          .mapToDouble(row -> ((Number) ((Map<?, ?>) row.get("columns")).get("mark")).doubleValue()).toArray());
      return Status.OK;
    }));
    trainer.setRollout(rollout -> {
      thrown(IllegalArgumentException.class, () -> rollout.setCompletion(0, new int[] {1, 2}, new float[] {0}, null, null));
      for (int i = 0; i < rollout.size(); i++) {
        rollout.setCompletion(i, new int[] {5, 6, 7}, new float[] {-1, -2, Float.NaN}, new boolean[] {true, true, false},
            Map.of("mark", i));
      }
      return Status.OK;
    });
    trainer.step();
    equal(List.of(List.of(5L, 6L, 7L), List.of(5L, 6L, 7L)), written);

    Trainer other = online(List.of(rollout -> {
      rollout.setRewards(IntStream.range(0, rollout.size()).mapToDouble(i -> i % 2).toArray());
      return Status.OK;
    }));
    Config options = Config.of("generate.max_new_tokens", 4);
    Generator generator = other.generator();
    other.setRollout(rollout -> {
      for (int i = 0; i < rollout.size(); i++) {
        int[] prompt = ((List<?>) rollout.get(i).get("prompt_ids")).stream().mapToInt(id -> ((Long) id).intValue()).toArray();
        long first = generator.add(prompt, options);
        while (generator.step()) continue;
        rollout.setCompletion(i, generator.take(first, 1).get(0).tokenIds());
      }
      return Status.OK;
    });
    that(other.step() != null);
  }

  public static void tools() {
    Map<String, Object> tool = Map.of("type", "function", "function", Map.of("name", "add", "description", "Adds.", "parameters",
        Map.of("type", "object", "properties", Map.of("a", Map.of("type", "integer")))));
    List<Object> calls = new ArrayList<>();
    Set<Object> called = new HashSet<>();
    List<Map<String, Object>> chats = Stream.of("One?", "Two?")
        .map(text -> Map.<String, Object>of("prompt", List.of(Map.of("role", "user", "content", text)))).toList();
    Config config = config("method", "grpo", "num_generations", 2, "max_steps", 2, "tools", List.of(tool), "tool_call_parser", "host",
        "max_completion_length", 200, "generation_kwargs", Map.of("stop_token_ids", IntStream.range(0, 96).toArray()));
    Trainer trainer = new Trainer(config, Dataset.ofRows(chats));
    trainer.addReward("one", rollout -> all(rollout, 1));
    trainer.setTools(rollout -> {
      for (int i = 0; i < rollout.size(); i++) {
        Map<String, Object> row = rollout.get(i);
        if (row.get("ask").equals("call")) {
          List<?> asked = (List<?>) row.get("calls");
          calls.addAll(asked);
          rollout.setValue(i, "results", asked.stream().map(call -> 41).toList());
          continue;
        }
        Map<String, Object> message = new HashMap<>(Map.of("role", "assistant", "content", "I add."));
        if (called.add(row.get("place"))) {
          message.put("tool_calls", List.of(Map.of("type", "function", "function", Map.of("name", "add", "arguments", Map.of("a", 1)))));
        }
        rollout.setValue(i, "message", message);
      }
      return Status.OK;
    });
    that(trainer.step() != null);
    Map<String, Object> call = Map.of("name", "add", "arguments", Map.of("a", 1L));
    equal(List.of(call, call), calls);
  }
}
