package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Pointer;
import java.util.AbstractList;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Rows that a trainer asks the host about; valid until the function returns, or until finish. */
public final class Rollout {
  private volatile Pointer pointer;

  Rollout(Pointer pointer) {
    this.pointer = pointer;
  }

  private Pointer open() {
    Pointer now = pointer;
    if (now == null) throw new IllegalStateException("this rollout is over");
    return now;
  }

  void end() {
    pointer = null;
  }

  /** How many rows it has. */
  public int size() {
    return Math.toIntExact(lib().trl_rollout_count(open()));
  }

  /** What is known of a row. */
  public Map<String, Object> get(int index) {
    Objects.checkIndex(index, size());
    return Call.object(c -> lib().trl_rollout_get(open(), index, c.out(), c.error()));
  }

  /** All rows; each is read when it is asked for. */
  public List<Map<String, Object>> rows() {
    return new AbstractList<>() {
      @Override
      public Map<String, Object> get(int index) {
        return Rollout.this.get(index);
      }

      @Override
      public int size() {
        return Rollout.this.size();
      }
    };
  }

  /** Sets a reward; NaN: the function does not score this completion. */
  public void setReward(int index, double reward) {
    Call.status(c -> lib().trl_rollout_set_reward(open(), index, reward, c.error()));
  }

  /** Sets the rewards of the rows in their order. */
  public void setRewards(double... rewards) {
    for (int i = 0; i < rewards.length; i++) setReward(i, rewards[i]);
  }

  /**
   * Sets the completion of a row.
   *
   * @param logProbs nullable; one for each token, NaN if it is not known
   * @param written nullable; false for a token that the model did not write
   * @param columns nullable; columns that are added to the row for its rewards
   */
  public void setCompletion(int index, int[] tokenIds, float[] logProbs, boolean[] written, Map<String, ?> columns) {
    int count = tokenIds.length;
    if (logProbs != null && logProbs.length != count || written != null && written.length != count) {
      throw new IllegalArgumentException("logProbs and written have one value for each of the " + count + " token ids");
    }
    byte[] flags = written == null ? null : new byte[count];
    for (int i = 0; flags != null && i < count; i++) flags[i] = (byte) (written[i] ? 1 : 0);
    Call.status(c -> lib().trl_rollout_set_completion(open(), index, c.ints(tokenIds), count, c.floats(logProbs),
        flags == null ? null : c.bytes(flags), columns == null ? null : c.text(Json.write(columns)), c.error()));
  }

  public void setCompletion(int index, int[] tokenIds) {
    setCompletion(index, tokenIds, null, null, null);
  }

  /** Sets a named value of a row: a column of the completions that are recorded, or the answer of a tool. */
  public void setValue(int index, String name, Object value) {
    Call.status(c -> lib().trl_rollout_set_value(open(), index, c.text(name), c.text(Json.write(value)), c.error()));
  }

  /** Adds a value to the metrics of the step. */
  public void log(String name, double value) {
    Call.status(c -> lib().trl_rollout_log(open(), c.text(name), value, c.error()));
  }

  /** Ends a rollout whose function returned Constants.Status.LATER, from any thread. */
  public void finish() {
    finish(null);
  }

  /** The same with the reason of a failure. */
  public void finish(String failure) {
    Call.status(c -> lib().trl_rollout_finish(open(), c.text(failure), c.error()));
    end();
  }
}
