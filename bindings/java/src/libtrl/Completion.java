package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Pointer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A completion as it was when it was taken.
 *
 * @param finishReason null: it goes on
 * @param json all of it, as the library gives it
 */
public record Completion(String text, int[] tokenIds, String finishReason, String json) {
  /** What its JSON has: the above, the error of an aborted one, and log-probabilities (generate.logprobs). */
  @SuppressWarnings("unchecked")
  public Map<String, Object> details() {
    return (Map<String, Object>) Json.parse(json);
  }

  /** Copies completions that a function makes, and frees them. */
  static List<Completion> take(Call.Body body) {
    Pointer made = Call.create(lib()::trl_completions_destroy, body);
    try (Call call = new Call()) {
      List<Completion> found = new ArrayList<>();
      Pointer size = call.out();
      Pointer text;
      while ((text = lib().trl_completions_text(made, found.size(), size)) != null) {
        String copied = Call.copy(text, call.number(0));
        Pointer ids = lib().trl_completions_tokens(made, found.size(), size);
        int count = Math.toIntExact(call.number(0));
        int[] tokens = count == 0 ? new int[0] : ids.getIntArray(0, count);
        String reason = Call.copyOrNull(lib().trl_completions_finish_reason(made, found.size()));
        Pointer details = lib().trl_completions_json(made, found.size(), size);
        found.add(new Completion(copied, tokens, reason, Call.copy(details, call.number(0))));
      }
      return found;
    } finally {
      lib().trl_completions_destroy(made);
    }
  }
}
