"""What a case records: padded batches, gradients, greedy continuations, or a classifier's scores."""

import contextlib
import json
import re
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import cases
import weights
from compact import compact, write
from dropout import Dropout

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

MIN_GAP = 0.01  # between the best and the second logit of every greedy step
MIN_ROUTER_GAP = 0.005  # between the last expert that is chosen and the first that is not, in logits
MIN_DISTINCT = 6  # greedy tokens


class Unclear(Exception):
    """A choice of this seed's model is too narrow to be compared."""


def record(name):
    """A classifier is the language model of its case with another head."""
    model = name.removesuffix("_classifier")
    for seed in range(1, 200):
        try:
            text = Case(model, seed).record()
        except Unclear:
            continue
        return text if name == model else Case(name, seed).record()
    raise RuntimeError(f"{name}: no seed gives clear choices")


class Case:
    def __init__(self, name, seed):
        config_class, arguments, self.options, self.classifier = cases.find(name)
        self.seed = seed
        auto = "AutoModelForSequenceClassification" if self.classifier else "AutoModelForCausalLM"
        self.auto = getattr(transformers, auto)
        config = getattr(transformers, config_class)(**arguments)
        self.directory = tempfile.TemporaryDirectory()
        self.auto.from_config(config).save_pretrained(self.directory.name)
        self.file = f"{self.directory.name}/model.safetensors"
        self.tensors = {
            key: (list(value.shape), *weights.center_and_spread(key, "gemma" in config.model_type))
            for key, value in load_file(self.file).items()
        }
        self.state = {key: torch.from_numpy(weights.weight(seed, key, *kind)) for key, kind in self.tensors.items()}
        save_file(self.state, self.file, metadata={"format": "pt"})
        with open(f"{self.directory.name}/config.json") as file:
            self.config = json.load(file)
        self.vocabulary = config.get_text_config().vocab_size - 3  # not those of gemma3's images

    def model(self):
        """Loaded anew: a rope that depends on the length keeps the longest it has seen."""
        model, info = self.auto.from_pretrained(
            self.directory.name, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
        )
        assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
        return model.eval()

    def ids(self, length, what):
        return [int(k) % (self.vocabulary - 3) + 3 for k in weights.upper16(self.seed, what, length)]

    def batch(self, lengths, what):
        rows = [self.ids(length, f"{what}.{row}") for row, length in enumerate(lengths)]
        width = max(lengths)
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        return rows, ids, mask

    def record(self):
        runs = [self.scores(i) if self.classifier else self.run(i) for i in range(len(self.options["runs"]))]
        case = {
            "transformers": transformers.__version__,
            "architecture": self.config["architectures"][0],
            "seed": self.seed,
            "config": self.config,
            "tensors": templates(self.tensors),
            "runs": runs,
        }
        if not self.classifier:
            case["greedy"] = [self.greedy(i) for i in range(len(self.options["prompts"]))]
        if self.options["random"]:
            case["random"] = self.options["random"]
        case["gradients"] = self.gradients()
        return write(case)

    @torch.no_grad()
    def run(self, number):
        rows, ids, mask = self.batch(self.options["runs"][number], f"run {number}")
        model = self.model()
        extra = {"output_router_logits": True} if experts_of(model.config) else {}
        out = model(input_ids=ids, attention_mask=mask, output_hidden_states=True, **extra)
        self.check_routers(model.config, getattr(out, "router_logits", None), mask)
        log_p = torch.log_softmax(out.logits.double(), -1)
        entropy = -(log_p.exp() * log_p).sum(-1)
        token = log_p[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
        run = {
            "rows": rows,
            "logprobs": [compact(token[i, : len(row) - 1]) for i, row in enumerate(rows)],
            "entropy": [compact(entropy[i, : len(row) - 1]) for i, row in enumerate(rows)],
            "norms": norms(out.hidden_states, rows),
        }
        if extra:
            run["aux_loss"] = compact(out.aux_loss)
        return run

    @torch.no_grad()
    def scores(self, number):
        rows, ids, mask = self.batch(self.options["runs"][number], f"run {number}")
        model = self.model()
        out = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        return {"rows": rows, "scores": compact(out.logits), "norms": norms(out.hidden_states, rows)}

    def check_routers(self, config, logits, mask):
        for layer in logits or ():
            ordered = layer.double().sort(-1, descending=True).values[mask.flatten() == 1]
            last = config.num_experts_per_tok
            if (ordered[:, last - 1] - ordered[:, last]).min() < MIN_ROUTER_GAP:
                raise Unclear

    @torch.no_grad()
    def greedy(self, number):
        prompt = self.ids(self.options["prompts"][number], f"prompt {number}")
        model = self.model()
        model.generation_config = transformers.GenerationConfig()
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=self.options["new_tokens"],
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
        best = torch.stack(out.logits)[:, 0].double().topk(2).values
        tokens = out.sequences[0, len(prompt) :].tolist()
        assert len(tokens) == self.options["new_tokens"]
        gap = (best[:, 0] - best[:, 1]).min()
        if gap < MIN_GAP or len(set(tokens)) < MIN_DISTINCT:
            raise Unclear
        return {"prompt": prompt, "tokens": tokens, "logits": compact(best[:, 0]), "min_gap": compact(gap)}

    def gradients(self):
        rows, ids, mask = self.batch(self.options["runs"][0], "run 0")
        model = self.model()
        result = {}
        random = self.options["random"]
        with Dropout(model.train(), random, [len(row) for row in rows]) if random else contextlib.nullcontext():
            if self.classifier:
                loss = model(input_ids=ids, attention_mask=mask).logits.square().sum() / 2
            else:
                extra = {"output_router_logits": True} if experts_of(model.config) else {}
                out = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100), **extra)
                loss = out.loss
        loss.backward()
        result["loss"] = compact(loss)
        found = {}
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                found[self.file_name(name, parameter)] = parameter.grad.double()
        result["total_norm"] = compact(torch.stack([g.square().sum() for g in found.values()]).sum().sqrt())
        result["tensors"] = {name: self.fingerprint(name, g) for name, g in found.items()}
        return result

    def file_name(self, name, parameter):
        """A parameter's name in the file; that in memory where the file has it in parts (experts)."""
        return next((key for key, value in self.state.items() if torch.equal(value, parameter.detach())), name)

    def fingerprint(self, name, gradient):
        """norm, max_abs, the sum of gradient * u, and six values evenly spread over the elements."""
        flat = gradient.flatten()
        u = torch.from_numpy(weights.upper16(self.seed, f"{name} gradient", len(flat)) / 32768 - 1)
        spread = flat[torch.arange(6) * len(flat) // 6]
        return compact(torch.cat([torch.stack([flat.norm(), flat.abs().max(), (flat * u).sum()]), spread]))


def experts_of(config):
    return getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)


def norms(hidden_states, rows):
    """[entry of hidden_states][row]: over the row's tokens."""
    return [
        compact(torch.stack([state[i, : len(row)].double().norm() for i, row in enumerate(rows)]))
        for state in hidden_states
    ]


def templates(tensors):
    """{"layers.#.w": [[[0, 1]], shape, center, spread]}: for each # the numbers that stand there."""
    groups = {}
    for name, kind in tensors.items():
        places = [int(part) for part in re.findall(r"(?<=\.)\d+(?=\.)", name)]
        groups.setdefault((re.sub(r"(?<=\.)\d+(?=\.)", "#", name), json.dumps(kind)), []).append(places)
    result = {}
    for (template, kind), places in groups.items():
        numbers = [sorted(set(column)) for column in zip(*places)]
        assert template not in result and len(places) == np.prod([len(n) for n in numbers], dtype=int), template
        result[template] = [numbers, *json.loads(kind)]
    return result
