package libtrl;

import static libtrl.Check.MODEL;
import static libtrl.Check.SOURCE;
import static libtrl.Check.equal;
import static libtrl.Check.has;
import static libtrl.Check.that;
import static libtrl.Check.thrown;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import libtrl.Check.Oops;

/** Servers of the binding for Java. */
public final class ServerTest {
  private static final Path ADAPTER = SOURCE.resolve("tests/golden/trajectories/sft_lora/adapter_final");

  private ServerTest() {}

  public static void main(String[] names) throws IOException {
    that(Trl.hasFeature("serve"));
    that(!loaded());
    Check.run(ServerTest.class, names);
    that(loaded());
    Check.end();
  }

  /** Whether the server's library is in this process. */
  private static boolean loaded() throws IOException {
    return Files.readString(Path.of("/proc/self/maps")).contains("libtrl_serve.so");
  }

  private static Server server(TrlRuntime runtime) {
    Server made = new Server(runtime, Config.of("serve.port", 0));
    try (Model model = new Model(MODEL)) {
      made.addModel("tiny", model);
    }
    return made;
  }

  private static List<Object> states(Server server) {
    List<Object> states = new ArrayList<>();
    for (Object model : (List<?>) server.describe().get("models")) states.add(((Map<?, ?>) model).get("state"));
    return states;
  }

  public static void anotherThreadEndsWhatOneWaitsFor() {
    try (Server server = server(null)) {
      server.start();
      that(!server.await(Duration.ofMillis(50)));
      CompletableFuture<Boolean> waits = CompletableFuture.supplyAsync(() -> server.await(null));
      server.cancel();
      that(waits.join());
      equal("stopped", server.describe().get("state"));
    }
  }

  public static void closingItEndsAWait() throws InterruptedException {
    Server server = server(null);
    server.start();
    CompletableFuture<Boolean> waits = CompletableFuture.supplyAsync(() -> server.await(null));
    Thread.sleep(100);
    server.close();
    that(waits.join());
    has(thrown(IllegalStateException.class, server::start).getMessage(), "this Server is closed");
  }

  public static void whatTheLogThrowsComesOutOfStart() {
    try (TrlRuntime runtime = new TrlRuntime(); Server server = server(runtime)) {
      runtime.setLog((level, component, text) -> {
        throw new Oops(text);
      });
      has(thrown(Oops.class, server::start).getMessage(), "serving tiny at http://");
      equal("running", server.describe().get("state"));
      runtime.setLog(null);
    }
  }

  public static void whatItServesMayBeClosedBefore() {
    Queue<Thread> threads = new ConcurrentLinkedQueue<>();
    try (TrlRuntime runtime = new TrlRuntime(); Server server = server(runtime)) {
      runtime.setLog((level, component, text) -> threads.add(Thread.currentThread()));
      try (Model model = new Model(MODEL); Tokenizer tokenizer = new Tokenizer(MODEL);
          Generator generator = model.generator(tokenizer)) {
        server.addGenerator("other", generator, tokenizer, null);
      }
      server.start();
      server.sleep("other", 2, "wait");
      equal(List.of("awake", "asleep"), states(server));
      server.wakeUp("other", "weights,kv_cache");
      server.setAdapter("tiny", "style", ADAPTER);
      thrown(TrlException.NotFound.class, () -> server.sleep("none", 1, null));
      thrown(TrlException.InvalidArgument.class, () -> server.setAdapter(null, "tiny", ADAPTER));
      server.stop();
      that(threads.size() >= 2 && threads.stream().allMatch(Thread.currentThread()::equals));
      runtime.setLog(null);
    }
  }
}
