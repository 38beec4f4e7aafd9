"""usage: tensorboard_check.py OUTPUT_DIR: what TensorBoard reads from runs/ equals log_history of trainer_state.json."""
import glob
import json
import math
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def tag(name):
    return "eval/" + name[5:] if name.startswith("eval_") else "train/" + name


output_dir = sys.argv[1]
[folder] = glob.glob(output_dir + "/runs/*")
events = EventAccumulator(folder, size_guidance={"scalars": 0})
events.Reload()
wanted = {}
with open(output_dir + "/trainer_state.json") as file:
    for record in json.load(file)["log_history"]:
        for name, value in record.items():
            if name != "step":
                wanted.setdefault(tag(name), []).append((record["step"], struct.unpack("f", struct.pack("f", value))[0]))
found = {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}
assert found.keys() == wanted.keys(), (sorted(found), sorted(wanted))
for name, values in wanted.items():
    assert len(values) == len(found[name]), name
    for (step, value), (got_step, got) in zip(values, found[name]):
        assert step == got_step and (value == got or math.isnan(value) and math.isnan(got)), (name, step, value, got)
print(f"{sum(map(len, found.values()))} values under {len(found)} tags")
