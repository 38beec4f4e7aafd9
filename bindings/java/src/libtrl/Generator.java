package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Pointer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Queue;
import libtrl.Constants.Status;

/** Completions of prompts. Where options can be given, null stands for none. */
public final class Generator extends Handle {
  /**
   * A new token.
   *
   * @param completion the number of its completion
   * @param text whole characters; empty while one is unfinished
   * @param logProbability NaN without generate.logprobs
   */
  public record Token(long completion, int id, String text, double logProbability) {}

  /** Takes a token: 0 to continue, anything else ends its completion. */
  public interface TokenFunction {
    int token(Token token) throws Exception;
  }

  /** The tokens of one completion, as they are computed. Closing it earlier than at the end ends the completion. */
  public final class Stream implements Iterable<Token>, Iterator<Token>, AutoCloseable {
    private final long number;
    private final Queue<Token> computed = new ArrayDeque<>();
    private boolean open = true;

    private Stream(long number) {
      this.number = number;
    }

    @Override
    public Iterator<Token> iterator() {
      return this;
    }

    @Override
    public boolean hasNext() {
      while (open && computed.isEmpty()) {
        boolean more = step(token -> {
          if (token.completion() == number) computed.add(token);
          return 0;
        });
        if (!more) close();
      }
      return !computed.isEmpty();
    }

    @Override
    public Token next() {
      if (!hasNext()) throw new NoSuchElementException();
      return computed.remove();
    }

    @Override
    public void close() {
      if (!open) return;
      open = false;
      if (isClosed()) return;
      cancel(number, 1);
      take(number, 1);
    }
  }

  private static final Abi.trl_token_fn TOKEN = (user, completion, token, text, size, logProbability) ->
      (int) Functions.<TokenFunction>run(user, Status.E_CALLBACK,
          function -> function == null ? 0 : function.token(new Token(completion, token, Call.copy(text, size), logProbability)));

  Generator(Pointer pointer, Handle... parents) {
    super(pointer, lib()::trl_generator_destroy, parents);
  }

  /**
   * Completes prompts, all together; completion j of prompt i has the number i * num_return_sequences + j.
   *
   * @param onToken may be null
   */
  public List<Completion> generate(List<String> prompts, Config options, TokenFunction onToken) {
    List<byte[]> data = prompts.stream().map(Call::utf8).toList();
    return Completion.take(c -> lib().trl_generator_generate(c.of(this), c.texts(data), c.sizes(data), data.size(),
        c.of(options), TOKEN, c.during(onToken), c.out(), c.error()));
  }

  /** Completes one prompt; the first completion of it. */
  public Completion generate(String prompt, Config options) {
    return generate(List.of(prompt), options, null).get(0);
  }

  public Completion generate(String prompt) {
    return generate(prompt, null);
  }

  /** Adds a request. Gives the number of its first completion. */
  public long add(String prompt, Config options) {
    byte[] text = Call.utf8(prompt);
    return Call.number(c -> lib().trl_generator_add(c.of(this), c.bytes(text), text.length, null, 0, c.of(options), c.out(),
        c.error()));
  }

  /** Adds a request of token ids. */
  public long add(int[] prompt, Config options) {
    return Call.number(c -> lib().trl_generator_add(c.of(this), null, 0, c.ints(prompt), prompt.length, c.of(options), c.out(),
        c.error()));
  }

  /**
   * Computes a token of each completion that runs; false if there was nothing to do. What the function throws ends its
   * completion alone, and is thrown again when the step is done.
   *
   * @param onToken may be null
   */
  public boolean step(TokenFunction onToken) {
    List<Throwable> thrown = new ArrayList<>();
    TokenFunction told = onToken == null ? null : token -> {
      try {
        return onToken.token(token);
      } catch (Throwable error) {
        thrown.add(error);
        return 1;
      }
    };
    try {
      return Call.status(c -> lib().trl_generator_step(c.of(this), TOKEN, c.during(told), c.error())) != Status.END;
    } finally {
      if (!thrown.isEmpty()) throw Functions.<RuntimeException>again(thrown.get(0));
    }
  }

  public boolean step() {
    return step(null);
  }

  /** Continues a completion that was added with generate.keep, after more text. */
  public void extend(long completion, String prompt, Config options) {
    byte[] text = Call.utf8(prompt);
    Call.status(c -> lib().trl_generator_extend(c.of(this), completion, c.bytes(text), text.length, null, 0, c.of(options),
        c.error()));
  }

  /** Continues a completion after more tokens. */
  public void extend(long completion, int[] prompt, Config options) {
    Call.status(c -> lib().trl_generator_extend(c.of(this), completion, null, 0, c.ints(prompt), prompt.length, c.of(options),
        c.error()));
  }

  /** Ends completions; their tokens so far can still be taken. */
  public void cancel(long first, long count) {
    Call.status(c -> lib().trl_generator_cancel(c.of(this), first, count, c.error()));
  }

  /** Takes completions as they are. */
  public List<Completion> take(long first, long count) {
    return Completion.take(c -> lib().trl_generator_take(c.of(this), first, count, c.out(), c.error()));
  }

  /** The tokens of one completion, as they are computed. Other requests go on meanwhile. */
  public Stream stream(String prompt, Config options) {
    return new Stream(add(prompt, options));
  }

  public Stream stream(int[] prompt, Config options) {
    return new Stream(add(prompt, options));
  }

  /** Gives the memory of keys and values back until completions go on. */
  public void releaseMemory() {
    Call.status(c -> lib().trl_generator_release_memory(c.of(this), c.error()));
  }
}
