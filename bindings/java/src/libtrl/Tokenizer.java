package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import java.nio.file.Path;
import java.util.Map;

/** The tokenizer of a model directory or of a GGUF file. */
public final class Tokenizer extends Handle {
  private interface Filler {
    int call(Call call, Pointer room, long capacity);
  }

  public Tokenizer(Path path) {
    this(null, path.toString(), null);
  }

  /** The runtime and options may be null. A path may also be that of files that the host has mounted. */
  public Tokenizer(TrlRuntime runtime, String path, Config options) {
    super(Call.create(lib()::trl_tokenizer_destroy,
        c -> lib().trl_tokenizer_open(c.of(runtime), c.text(path), c.of(options), c.out(), c.error())),
        lib()::trl_tokenizer_destroy, runtime);
  }

  /** The token ids of a text, with the tokens that the tokenizer adds; special tokens that are spelled out are recognised. */
  public int[] encode(String text) {
    return encode(text, true, null);
  }

  /**
   * The token ids of a text.
   *
   * @param splitSpecialTokens whether special tokens that are spelled out in the text are text like any other; null: as the
   *     key split_special_tokens says
   */
  public int[] encode(String text, boolean addSpecialTokens, Boolean splitSpecialTokens) {
    byte[] bytes = Call.utf8(text);
    int split = splitSpecialTokens == null ? -1 : splitSpecialTokens ? 1 : 0;
    return fill(bytes.length + 8L, 4, (memory, count) -> memory.getIntArray(0, Math.toIntExact(count)),
        (c, room, capacity) -> lib().trl_tokenizer_encode(c.of(this), c.bytes(bytes), bytes.length, addSpecialTokens ? 1 : 0,
            split, room, capacity, c.out(), c.error()));
  }

  /** The text of token ids. */
  public String decode(int[] ids, boolean skipSpecialTokens) {
    return text((c, room, capacity) -> lib().trl_tokenizer_decode(c.of(this), c.ints(ids), ids.length,
        skipSpecialTokens ? 1 : 0, room, capacity, c.out(), c.error()));
  }

  public String decode(int[] ids) {
    return decode(ids, false);
  }

  /** A token as in the vocabulary. */
  public String piece(int token) {
    return text((c, room, capacity) ->
        lib().trl_tokenizer_get_piece(c.of(this), token, room, capacity, c.out(), c.error()));
  }

  /**
   * Renders a list of messages, or a map with `messages` and, if wanted, `tools`, `add_generation_prompt`,
   * `continue_final_message` and `chat_template_kwargs`.
   */
  public String applyChatTemplate(Object messages) {
    byte[] json = Call.utf8(Json.write(messages));
    return text((c, room, capacity) -> lib().trl_tokenizer_apply_chat_template(c.of(this), c.bytes(json), json.length, room,
        capacity, c.out(), c.error()));
  }

  /** The size of the vocabulary, special tokens and the chat template. */
  public Map<String, Object> describe() {
    return Call.object(c -> lib().trl_tokenizer_describe(c.of(this), c.out(), c.error()));
  }

  private static String text(Filler filler) {
    return fill(1024, 1, Call::copy, filler);
  }

  /** Calls a function that writes into a buffer, and again if that was too small. */
  private static <T> T fill(long capacity, int width, java.util.function.BiFunction<Memory, Long, T> copy, Filler filler) {
    while (true) {
      try (Call call = new Call()) {
        long room = capacity;
        Memory memory = call.room(width * room);
        call.run(c -> filler.call(c, memory, room));
        capacity = call.number(0);
        if (capacity <= room) return copy.apply(memory, capacity);
      }
    }
  }
}
