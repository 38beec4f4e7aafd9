"""The tokenizers, with the steps that published Unigram and WordPiece models have."""

import base64
import io
import itertools
import json
import random
import tempfile
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import text_sample

VOCABULARY = 500


def charsmap():
    """A Precompiled normalizer's table, made by sentencepiece of a part of NFKC and its own rules for blanks."""
    rules = {}
    ranges = [(0xA0, 0x180), (0x1E00, 0x1F00), (0x2000, 0x2070), (0x2460, 0x2474), (0xFB00, 0xFB07), (0xFF01, 0xFFA0)]
    for c in (chr(c) for begin, end in ranges for c in range(begin, end)):
        folded, apart = unicodedata.normalize("NFKC", c), unicodedata.normalize("NFD", c)
        if folded != c:
            rules[c] = folded
        elif apart != c and len(apart) == 2:
            rules[apart] = c
    rules.update({c: " " for c in "\t\n\r\x0b\x0c\u0085\u2028\u2029\u3000\u200b\ufeff"})
    rules.update({chr(c): "" for c in [*range(1, 9), *range(14, 32), 0x7F, *range(0x80, 0x85), 0xAD, 0x2060]})
    lines = ["\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule) for rule in rules.items()]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text_sample.training_text()),
            model_writer=model,
            vocab_size=300,
            normalization_rule_tsv=file.name,
            minloglevel=2,
        )
    return field(field(model.getvalue(), 3), 2)  # ModelProto.normalizer_spec.precompiled_charsmap


def field(message, wanted):
    """The bytes of a length-delimited field of a protobuf message."""
    stream = io.BytesIO(message)

    def varint():
        value = shift = 0
        while True:
            byte = stream.read(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while stream.tell() < len(message):
        key = varint()
        if key & 7 == 2:
            content = stream.read(varint())
            if key >> 3 == wanted:
                return content
        elif key & 7 == 0:
            varint()
        else:
            stream.read({1: 8, 5: 4}[key & 7])
    raise KeyError(wanted)


def precompiled():
    return normalizers.Precompiled(charsmap())


def unigram(normalizer, pre_tokenizer, post_processor, decoder, special, unknown, byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=special, unk_token=unknown, show_progress=False
    )
    tokenizer.train_from_iterator(text_sample.training_text(), trainer)
    if byte_fallback:
        give_bytes(tokenizer, special, unknown)
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    tokenizer.decoder = decoder
    return tokenizer


def give_bytes(tokenizer, special, unknown):
    """Pieces for all bytes behind the special tokens, as sentencepiece places them."""
    vocabulary = [tuple(entry) for entry in json.loads(tokenizer.to_str())["model"]["vocab"]]
    pieces = [*vocabulary[: len(special)], *((f"<0x{b:02X}>", 0.0) for b in range(256)), *vocabulary[len(special) :]]
    tokenizer.model = models.Unigram(pieces, special.index(unknown), True)


def template(single, special, pair=None):
    pair = pair or single.replace("$A", "$A $B:1")
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)


def t5():
    return unigram(
        precompiled(),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        template("$A </s>", [("</s>", 1)]),
        decoders.Metaspace(),
        ["<pad>", "</s>", "<unk>"],
        "<unk>",
    )


def xlm_roberta():
    tokenizer = unigram(
        normalizers.Sequence(
            [precompiled(), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
        ),
        pre_tokenizers.Metaspace(prepend_scheme="always"),
        processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True),
        decoders.Metaspace(prepend_scheme="always"),
        ["<s>", "<pad>", "</s>", "<unk>"],
        "<unk>",
    )
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    return tokenizer


def albert():
    quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    tokenizer = unigram(
        normalizers.Sequence(
            [*quotes, normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), precompiled()]
        ),
        pre_tokenizers.Metaspace(prepend_scheme="first"),
        template("[CLS] $A [SEP]", [("[CLS]", 2), ("[SEP]", 3)], "[CLS] $A [SEP] $B:1 [SEP]:1"),
        decoders.Metaspace(prepend_scheme="first"),
        ["<pad>", "<unk>", "[CLS]", "[SEP]"],
        "<unk>",
    )
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    return tokenizer


def llama_like():
    return unigram(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        None,
        template("<s> $A", [("<s>", 1)]),
        decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        ),
        ["<unk>", "<s>", "</s>"],
        "<unk>",
        byte_fallback=True,
    )


def wordpiece(normalizer, pre_tokenizer, post_processor, decoder, special, **model):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", **model))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    prefix = model.get("continuing_subword_prefix", "##")
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=special, continuing_subword_prefix=prefix, show_progress=False
    )
    tokenizer.train_from_iterator(text_sample.training_text(), trainer)
    tokenizer.post_processor = post_processor
    tokenizer.decoder = decoder
    return tokenizer


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert_uncased():
    return wordpiece(
        normalizers.BertNormalizer(),
        pre_tokenizers.BertPreTokenizer(),
        template("[CLS] $A [SEP]", [("[CLS]", 2), ("[SEP]", 3)], "[CLS] $A [SEP] $B:1 [SEP]:1"),
        decoders.WordPiece(),
        BERT,
    )


def bert_cased():
    return wordpiece(
        normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False),
        pre_tokenizers.BertPreTokenizer(),
        processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
        decoders.WordPiece(cleanup=False),
        BERT,
        max_input_chars_per_word=20,
    )


def wordpiece_steps():
    return wordpiece(
        normalizers.Sequence(
            [normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\d+"), "0")]
        ),
        pre_tokenizers.Sequence(
            [pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)]
        ),
        template("[CLS] $A", [("[CLS]", 2)]),
        decoders.Sequence([decoders.WordPiece(prefix="@@", cleanup=True), decoders.Strip(" ", 0, 1)]),
        BERT,
        continuing_subword_prefix="@@",
    )


SMALL = 250


def bpe_word_ends():
    """GPT-1's and HerBERT's."""
    affixes = {"end_of_word_suffix": "</w>"}
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **affixes))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return bpe(tokenizer, ["<unk>"], decoders.BPEDecoder(suffix="</w>"), affixes)


def bpe_continued():
    affixes = {"continuing_subword_prefix": "##", "end_of_word_suffix": "!"}
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=True, **affixes))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return bpe(tokenizer, ["[UNK]"], decoders.WordPiece(prefix="##"), affixes)


def bpe(tokenizer, special, decoder, affixes):
    trainer = trainers.BpeTrainer(vocab_size=SMALL, special_tokens=special, show_progress=False, **affixes)
    tokenizer.train_from_iterator(text_sample.training_text(), trainer)
    tokenizer.decoder = decoder
    return tokenizer


def bpe_shuffled():
    """Every way to make each text of up to four of three letters, in any order."""
    texts = ["".join(text) for n in range(1, 5) for text in itertools.product("abc", repeat=n)]
    merges = [(text[:cut], text[cut:]) for text in texts for cut in range(1, len(text))]
    random.Random(7).shuffle(merges)
    return Tokenizer(models.BPE({text: i for i, text in enumerate(texts)}, merges))


def word_level():
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(vocab_size=SMALL, special_tokens=["<unk>", "<s>"], show_progress=False)
    tokenizer.train_from_iterator(text_sample.training_text(), trainer)
    tokenizer.post_processor = template("<s> $A", [("<s>", 1)])
    return tokenizer


def unigram_twice():
    """Pieces that stand in the vocabulary twice: the later ones count."""
    letters = [*"▁etaoinshrdlucmfwypvbgkqjxzTHIS.,'0123456789"]
    parts = ["▁the", "th", "the", "in", "ing", "er", "▁a", "▁of", "on", "an", "ed", "re", "▁s", "▁w", "river", "ver"]
    pieces = [("<unk>", 0.0), *((piece, -4.0 - i / 8) for i, piece in enumerate(letters + parts))]
    again = [(piece, score + (4.5 if i % 2 else -4.5)) for i, (piece, score) in enumerate(pieces[1::3])]
    tokenizer = Tokenizer(models.Unigram([*pieces, *again, again[0]], 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


KINDS = {
    "unigram_t5": t5,
    "unigram_xlm_roberta": xlm_roberta,
    "unigram_albert": albert,
    "unigram_llama": llama_like,
    "wordpiece_bert_uncased": bert_uncased,
    "wordpiece_bert_cased": bert_cased,
    "wordpiece_steps": wordpiece_steps,
    "bpe_word_ends": bpe_word_ends,
    "bpe_continued": bpe_continued,
    "bpe_shuffled": bpe_shuffled,
    "word_level": word_level,
    "unigram_twice": unigram_twice,
}
