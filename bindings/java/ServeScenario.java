import java.io.IOException;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import libtrl.Config;
import libtrl.Json;
import libtrl.Model;
import libtrl.Server;
import libtrl.TrlException;
import libtrl.TrlRuntime;

/**
 * The scenario of bindings/serve_scenario.json in Java: ServeScenario SCENARIO MODEL ADAPTER. bindings/README.md says what it
 * does and prints; every language prints the same text.
 */
public final class ServeScenario implements AutoCloseable {
  private record Answer(int status, Map<String, Object> json) {}

  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private final Map<String, Object> scenario;
  private final Queue<String> log = new ConcurrentLinkedQueue<>();
  private final Server server;
  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  private ServeScenario(Map<String, Object> scenario, Path model) {
    this.scenario = scenario;
    TrlRuntime runtime = new TrlRuntime();
    runtime.setLog((level, component, text) -> log.add(text));
    server = new Server(runtime, new Config(object(scenario.get("options"))));
    try (Model opened = new Model(runtime, model.toString(), null)) {
      server.addModel(text("model"), opened);
    }
  }

  @Override
  public void close() {
    server.close();
  }

  private static void line(Object... parts) {
    StringBuilder line = new StringBuilder();
    for (Object part : parts) {
      if (line.length() > 0) line.append(' ');
      line.append(part instanceof Boolean yes ? yes ? "1" : "0" : part);
    }
    OUT.print(line.append('\n'));
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> object(Object value) {
    return (Map<String, Object>) value;
  }

  private static Map<String, Object> first(Object list) {
    return object(((List<?>) list).get(0));
  }

  private String text(String name) {
    return (String) scenario.get(name);
  }

  private Map<String, Object> served() {
    return first(server.describe().get("models"));
  }

  private void state() {
    line("server", server.describe().get("state"));
  }

  private Answer request(String path, String body) throws IOException, InterruptedException {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://" + server.describe().get("address") + path))
        .timeout(Duration.ofMinutes(1));
    if (body != null) request.header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body));
    HttpResponse<String> response = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
    return new Answer(response.statusCode(), object(Json.parse(response.body())));
  }

  private void complete(String name) throws IOException, InterruptedException {
    Answer answer = request("/v1/completions", text(name));
    line("completion", answer.status(), answer.status() == 200 ? first(answer.json().get("choices")).get("text")
        : object(answer.json().get("error")).get("type"));
  }

  private void start() {
    log.clear();
    server.start();
    String address = (String) server.describe().get("address");
    line("log", log.stream().anyMatch(text -> text.contains(address)));
    state();
  }

  private void adapters(Path adapter) throws IOException, InterruptedException {
    server.setAdapter(null, text("adapter"), adapter);
    for (Object one : (List<?>) served().get("adapters")) line("adapter", object(one).get("name"), "version", object(one).get("version"));
    complete("adapted_request");
    server.removeAdapter(null, text("adapter"));
    line("adapters", ((List<?>) served().get("adapters")).size());
    complete("adapted_request");
  }

  private void sleep() throws IOException, InterruptedException {
    server.sleep(null, 1, null);
    line("model", served().get("state"));
    complete("request");
    server.wakeUp(null, null);
    line("model", served().get("state"));
    complete("request");
  }

  private void run(Path model, Path adapter) throws IOException, InterruptedException {
    try (Model again = new Model(model)) {
      server.addModel(text("model"), again);
    } catch (TrlException error) {
      line("added twice, status", error.status());
    }
    state();
    start();
    line("stopped", server.await(Duration.ZERO));

    Answer models = request("/v1/models", null);
    line("models", models.status(), first(models.json().get("data")).get("id"));
    complete("request");
    adapters(adapter);
    try {
      server.setAdapter(null, text("adapter"), model);
    } catch (TrlException error) {
      line("no adapter, status", error.status());
    }
    sleep();
    line("requests", served().get("requests"));

    server.cancel();
    line("stopped", server.await(null));
    state();
    start();
    server.stop(Duration.ZERO);
    state();
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, Object> scenario = object(Json.parse(Files.readString(Path.of(arguments[0]))));
    Path model = Path.of(arguments[1]);
    try (Config wrong = Config.of(scenario.get("refused_key"), scenario.get("refused_value")); Server refused = new Server(wrong)) {
      line("not refused", refused);
    } catch (TrlException error) {
      line("refused", error.key(), "status", error.status());
    }
    try (ServeScenario host = new ServeScenario(scenario, model)) {
      host.run(model, Path.of(arguments[2]));
    }
  }
}
