"""Dropout as libtrl draws it (src/base/arithmetic/counter_random.h, src/kernels/kernels.h), in place of PyTorch's."""

import re

import numpy as np
import torch

PLACES = ["attention_weights", "attention_out", "mlp_out"]  # src/model/layer/layer_context.h
# Modules of transformers, by the end of their names; what layers begin with has no place in one.
MODULES = [
    (r"(transformer\.drop|emb_dropout)$", None),
    (r"(attn\.resid_dropout|post_attention_dropout|resid_attn_dropout)$", "attention_out"),
    (r"(mlp\.dropout|post_mlp_dropout|resid_mlp_dropout|layers\.\d+\.dropout)$", "mlp_out"),
]
IGNORED = r"attn\.attn_dropout$"  # names a rate; the weights go through torch.nn.functional.dropout


def counter_seed(*parts):
    key = 0
    for part in parts:
        key = ((key ^ int(part)) + 0x9E3779B97F4A7C15) % 2**64
        key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        key = (key ^ (key >> 27)) * 0x94D049BB133111EB % 2**64
        key ^= key >> 31
    return key


def counter_bits(key, index):
    x = index.astype(np.uint32) + np.uint32(key % 2**32)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D) + np.uint32(key >> 32)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def factors(rate, key, rows, columns):
    """What the elements in these rows and columns of a matrix are multiplied by."""
    drawn = np.stack([counter_bits(counter_seed(key, row), np.asarray(columns)) for row in rows])
    return torch.from_numpy(np.where(drawn >> np.uint32(8) >= round(rate * 2**24), 1 / (1 - rate), 0.0))


class Dropout:
    """While this is entered, the model drops what libtrl drops. lengths: of the rows of the padded batch."""

    def __init__(self, model, random, lengths):
        self.model, self.random, self.lengths = model, random, lengths
        self.starts = np.cumsum([0, *lengths])
        self.layers = model.config.num_hidden_layers
        self.attended = 0  # layers

    def key(self, layer, place):
        return counter_seed(counter_seed(self.random, layer), PLACES.index(place))

    def stream(self, x, rate, key):
        y = torch.zeros_like(x)
        for i, length in enumerate(self.lengths):
            rows = range(self.starts[i], self.starts[i] + length)
            y[i, :length] = x[i, :length] * factors(rate, key, rows, range(x.shape[2]))
        return y

    def weights(self, x, p=0.5, training=True, inplace=False):
        heads, key = x.shape[1], self.key(self.attended, "attention_weights")
        self.attended += 1
        y = torch.zeros_like(x)
        for i, length in enumerate(self.lengths):
            tokens = range(self.starts[i], self.starts[i] + length)
            rows = [token * heads + head for head in range(heads) for token in tokens]
            made = factors(p, key, rows, tokens).view(heads, length, length)
            y[i, :, :length, :length] = x[i, :, :length, :length] * made
        return y

    def __enter__(self):
        self.before = torch.nn.functional.dropout
        torch.nn.functional.dropout = self.weights
        for name, module in self.model.named_modules():
            if not isinstance(module, torch.nn.Dropout) or re.search(IGNORED, name):
                continue
            (place,) = [place for pattern, place in MODULES if re.search(pattern, name)]
            layer = re.search(r"\.(\d+)\.", name)
            key = self.key(int(layer[1]), place) if place else counter_seed(self.random, self.layers)
            module.forward = lambda x, rate=module.p, key=key: self.stream(x, rate, key)

    def __exit__(self, *_):
        torch.nn.functional.dropout = self.before
        assert self.attended == self.layers
