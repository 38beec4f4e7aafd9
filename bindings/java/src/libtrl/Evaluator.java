package libtrl;

import static libtrl.Loader.lib;

import java.util.List;
import java.util.Map;

/** A model that is measured on rows, without a run. */
public final class Evaluator extends Handle {
  public Evaluator(Config config) {
    this(null, config);
  }

  public Evaluator(TrlRuntime runtime, Config config) {
    super(Call.create(lib()::trl_evaluator_destroy,
        c -> lib().trl_evaluator_create(c.of(runtime), c.of(config), c.out(), c.error())), lib()::trl_evaluator_destroy, runtime);
  }

  /** The numbers of an evaluation within a run, under the same names. */
  public Map<String, Double> evaluate(Dataset rows) {
    return Call.metrics(c -> lib().trl_evaluator_evaluate(c.of(this), c.of(rows), c.out(), c.error()));
  }

  /** Completes sample_prompts. */
  @SuppressWarnings("unchecked")
  public List<Map<String, Object>> complete() {
    return (List<Map<String, Object>>) Call.json(c -> lib().trl_evaluator_complete(c.of(this), c.out(), c.error()));
  }
}
