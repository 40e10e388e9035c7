"""The glm4_moe family in PyTorch, as far as a draft layer is trained on it: checkpoint files, tokenizer, forward pass.

Everything is float32; weights are read from BF16 and rounded to it when they are written.
"""

import json
import math
import struct
from pathlib import Path

import numpy as np
import regex
import torch
import torch.nn.functional as F


# Checkpoint files.

def read_safetensors(path):
    """Tensors by name, as float32."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            bits = np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16
            values = bits.view(np.float32)
        elif entry["dtype"] == "F32":
            values = np.frombuffer(data[begin:end], "<f4")
        else:
            raise ValueError(f"{path}: {name}: expected BF16 or F32, got {entry['dtype']}")
        tensors[name] = torch.from_numpy(values.copy()).reshape(entry["shape"])
    return tensors


def is_float32(name):
    """Routers' correction biases lose their meaning in BF16; all else is stored in it."""
    return name.endswith("e_score_correction_bias")


def write_safetensors(path, tensors):
    header, chunks, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in sorted(tensors.items()):
        tensor = tensor.detach().contiguous()
        if is_float32(name):
            dtype, chunk = "F32", tensor.numpy().astype("<f4").tobytes()
        else:
            bits = tensor.to(torch.bfloat16).view(torch.int16).numpy()
            dtype, chunk = "BF16", bits.astype("<i2").tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(chunk)]}
        chunks.append(chunk)
        offset += len(chunk)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


# Tokenizer.

class Tokenizer:
    """Byte-level BPE of a tokenizer.json with one split pattern."""

    def __init__(self, path):
        file = json.loads(Path(path).read_text(encoding="utf-8"))
        split = file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
        self.split = regex.compile(split)
        self.vocab = file["model"]["vocab"]
        merges = (tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in file["model"]["merges"])
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.special = {token["content"]: token["id"] for token in file["added_tokens"]}
        self.specials = regex.compile("(" + "|".join(map(regex.escape, self.special)) + ")")
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in printable]
        self.byte_of = {byte: chr(byte) for byte in printable}
        self.byte_of.update({byte: chr(256 + i) for i, byte in enumerate(others)})
        self.char_to_byte = {char: byte for byte, char in self.byte_of.items()}
        self.name_of = {i: token for token, i in self.vocab.items()}

    def encode(self, text):
        ids = []
        for part in self.specials.split(text):
            if part in self.special:
                ids.append(self.special[part])
            else:
                for word in self.split.findall(part):
                    ids.extend(self._merge([self.byte_of[byte] for byte in word.encode()]))
        return ids

    def _merge(self, parts):
        while len(parts) > 1:
            pairs = list(zip(parts, parts[1:]))
            best = min(range(len(pairs)), key=lambda i: self.ranks.get(pairs[i], math.inf))
            if pairs[best] not in self.ranks:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        return [self.vocab[part] for part in parts]

    def decode(self, ids):
        text = "".join(self.name_of.get(i, "") for i in ids)
        return bytes(self.char_to_byte[char] for char in text).decode("utf-8", "replace")


# Forward pass. Weights of a layer are a dict of tensors, named as in the checkpoint below `model.layers.N.`.

def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def swiglu(x, weights, prefix):
    gate = F.silu(x @ weights[prefix + "gate_proj.weight"].t())
    return (gate * (x @ weights[prefix + "up_proj.weight"].t())) @ weights[prefix + "down_proj.weight"].t()


class Glm:
    """Shapes and arithmetic of one glm4_moe model; its weights are arguments."""

    def __init__(self, config):
        self.config = config
        self.eps = config["rms_norm_eps"]
        self.heads, self.groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = config["head_dim"]
        self.rotary = int(self.head_dim * config["partial_rotary_factor"])
        assert config["use_qk_norm"] and config["attention_bias"] and config["rope_scaling"] is None
        assert config["n_group"] == 1 and config["norm_topk_prob"] and config["n_shared_experts"] == 1
        exponent = torch.arange(0, self.rotary, 2, dtype=torch.float64) / self.rotary
        inverse = config["rope_theta"] ** -exponent
        angle = torch.outer(torch.arange(config["max_position_embeddings"], dtype=torch.float64), inverse)
        self.cos, self.sin = angle.cos().float(), angle.sin().float()

    def rope(self, x, start):
        """Rotates the first dimensions of [batch, heads, time, head_dim]: element i with element i + rotary / 2."""
        half, end = self.rotary // 2, start + x.shape[2]
        cos, sin = self.cos[start:end], self.sin[start:end]
        a, b, rest = x[..., :half], x[..., half:self.rotary], x[..., self.rotary:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)

    def project(self, x, w, start):
        """Queries, keys and values of a normed input [batch, time, hidden], as [batch, heads, time, head_dim]."""
        def part(name, heads):
            y = x @ w[f"self_attn.{name}_proj.weight"].t() + w[f"self_attn.{name}_proj.bias"]
            return y.view(*x.shape[:2], heads, self.head_dim).transpose(1, 2)
        q = rms_norm(part("q", self.heads), w["self_attn.q_norm.weight"], self.eps)
        k = rms_norm(part("k", self.groups), w["self_attn.k_norm.weight"], self.eps)
        return self.rope(q, start), self.rope(k, start), part("v", self.groups)

    def spread(self, x):
        """Keys or values for every query head."""
        return x.repeat_interleave(self.heads // self.groups, 1)

    def route(self, x, w):
        """Experts and weights of each row: chosen by the biased scores, weighted by those without the bias."""
        scores = torch.sigmoid(x @ w["mlp.gate.weight"].t())
        choice = (scores.detach() + w["mlp.gate.e_score_correction_bias"]).topk(self.config["num_experts_per_tok"], -1)
        weights = scores.gather(-1, choice.indices)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.config["routed_scaling_factor"]
        return choice.indices, weights

    def mlp(self, x, w, load=None):
        """The feed-forward part of [rows, hidden]; adds to `load` how many rows each expert got."""
        if "mlp.gate.weight" not in w:
            return swiglu(x, w, "mlp.")
        experts, weights = self.route(x, w)
        order = experts.flatten().argsort(stable=True)
        counts = torch.bincount(experts.flatten(), minlength=self.config["n_routed_experts"])
        if load is not None:
            load += counts
        rows = order // experts.shape[1]
        parts = []
        for expert, chosen in enumerate(x[rows].split(counts.tolist())):
            if len(chosen):
                parts.append(swiglu(chosen, w, f"mlp.experts.{expert}."))
        routed = torch.cat(parts) * weights.flatten()[order].unsqueeze(1)
        return swiglu(x, w, "mlp.shared_experts.").index_add(0, rows, routed)

    def after_attention(self, x, mixed, w, load=None):
        """What stands behind the attention of a layer: `x` its input, `mixed` [batch, heads, time, head_dim]."""
        x = x + mixed.transpose(1, 2).flatten(2) @ w["self_attn.o_proj.weight"].t()
        normed = rms_norm(x, w["post_attention_layernorm.weight"], self.eps)
        return x + self.mlp(normed.flatten(0, 1), w, load).view_as(x)

    def layer(self, x, w, cache=None):
        """A layer over [batch, time, hidden]; `cache` is a list of the keys and values before, and is extended."""
        start = cache[0].shape[2] if cache else 0
        q, k, v = self.project(rms_norm(x, w["input_layernorm.weight"], self.eps), w, start)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = k, v
        scores = q @ self.spread(k).transpose(2, 3) / math.sqrt(self.head_dim)
        time, keys = scores.shape[2:]
        hidden = torch.ones(time, keys, dtype=torch.bool).triu(keys - time + 1)
        mixed = scores.masked_fill(hidden, -math.inf).softmax(-1) @ self.spread(v)
        return self.after_attention(x, mixed, w)


class Model:
    """A checkpoint with its weights."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.config = json.loads((self.directory / "config.json").read_text())
        self.arithmetic = Glm(self.config)
        self.tensors = read_safetensors(self.directory / "model.safetensors")
        self.embedding = self.tensors["model.embed_tokens.weight"]
        self.head = self.tensors["lm_head.weight"]
        self.norm = self.tensors["model.norm.weight"]
        self.layers = [self.layer_weights(n) for n in range(self.config["num_hidden_layers"])]
        self.tokenizer = Tokenizer(self.directory / "tokenizer.json")
        self.stops = set(self.config["eos_token_id"])

    def layer_weights(self, number):
        prefix = f"model.layers.{number}."
        return {name[len(prefix):]: t for name, t in self.tensors.items() if name.startswith(prefix)}

    @torch.no_grad()
    def hidden(self, ids, caches=None):
        """Outputs of the final norm for ids [batch, time]; `caches` has a list for each layer."""
        x = self.embedding[ids]
        for number, weights in enumerate(self.layers):
            x = self.arithmetic.layer(x, weights, None if caches is None else caches[number])
        return rms_norm(x, self.norm, self.arithmetic.eps)

    def logits(self, hidden):
        return hidden @ self.head.t()

    @torch.no_grad()
    def generate(self, prompts, limit, temperature=0.0, generator=None, stop=True):
        """Continues prompts of equal length; each result ends with its stop token or has `limit` tokens."""
        ids = torch.tensor(prompts)
        caches = [[] for _ in self.layers]
        results, live = [[] for _ in prompts], list(range(len(prompts)))
        for _ in range(limit):
            logits = self.logits(self.hidden(ids, caches)[:, -1])
            if temperature > 0:
                next_ids = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator).squeeze(1)
            else:
                next_ids = logits.argmax(-1)
            keep = []
            for row, token in enumerate(next_ids.tolist()):
                results[live[row]].append(token)
                if not (stop and token in self.stops):
                    keep.append(row)
            if not keep:
                break
            if len(keep) < len(live):
                live = [live[row] for row in keep]
                caches = [[part[keep] for part in cache] for cache in caches]
            ids = next_ids[keep].unsqueeze(1)
        return results


class DraftLayer:
    """One decoder layer of the family behind the last one, which drafts tokens ahead.

    Row t takes the token of position t + 1 and a hidden state, and gives the logits of the token of position t + 2. The
    first draft starts from the model's hidden state of position t behind its final norm, every further one from what the
    draft before it was made of, behind `shared_head.norm`. Embedding and output projection are the model's.
    """

    def __init__(self, model, weights):
        self.model, self.weights, self.arithmetic = model, weights, model.arithmetic

    def prefix(self):
        return f"model.layers.{self.model.config['num_hidden_layers']}."

    @staticmethod
    def fresh(model, generator):
        """Starts from the model's last layer, and from a sum of the hidden state and a little of the embedding."""
        weights = {name: tensor.clone() for name, tensor in model.layer_weights(len(model.layers) - 1).items()}
        size = model.config["hidden_size"]
        weights["enorm.weight"], weights["hnorm.weight"] = torch.ones(size), torch.ones(size)
        noise = torch.randn(size, 2 * size, generator=generator) * 0.02
        weights["eh_proj.weight"] = noise + torch.cat((0.5 * torch.eye(size), torch.eye(size)), 1)
        weights["shared_head.norm.weight"] = model.norm.clone()
        return DraftLayer(model, weights)

    def unroll(self, ids, hidden, depth, load=None):
        """Hidden states behind `shared_head.norm` of each of `depth` chained drafts, all rows at once.

        Takes the ids and the model's hidden states, [batch, time] and [batch, time, hidden]; gives `depth` tensors of
        [batch, time - 1, hidden]. Draft d of row t is what a chain that began at row t - d + 1 has there, given that the
        drafts before it were right: it attends to rows of the first draft up to where the chain began and to those of the
        chain itself. Rows t < d - 1 of it have no such chain and mean nothing.
        """
        w, a = self.weights, self.arithmetic
        embedded = rms_norm(self.model.embedding[ids[:, 1:]], w["enorm.weight"], a.eps)
        state, time = hidden[:, :-1], ids.shape[1] - 1
        row, key = torch.arange(time).unsqueeze(1), torch.arange(time).unsqueeze(0)
        states, chain = [], []
        for draft in range(depth):
            joined = torch.cat((embedded, rms_norm(state, w["hnorm.weight"], a.eps)), -1)
            x = joined @ w["eh_proj.weight"].t()
            q, k, v = a.project(rms_norm(x, w["input_layernorm.weight"], a.eps), w, 0)
            k, v = a.spread(k), a.spread(v)
            chain.append((k, v))
            scores = q @ chain[0][0].transpose(2, 3)
            scores = [scores.masked_fill(key > row - draft, -math.inf)]
            # A row of draft d sees that of draft j at d - j rows before it.
            behind = [tuple(delay(t, draft - j) for t in chain[j]) for j in range(1, draft + 1)]
            scores += [(q * k_j).sum(-1, keepdim=True) for k_j, _ in behind]
            shares = (torch.cat(scores, -1) / math.sqrt(a.head_dim)).softmax(-1)
            mixed = shares[..., :time] @ chain[0][1]
            for j, (_, v_j) in enumerate(behind):
                mixed = mixed + shares[..., time + j:time + j + 1] * v_j
            state = rms_norm(a.after_attention(x, mixed, w, load), w["shared_head.norm.weight"], a.eps)
            states.append(state)
            state = torch.cat((torch.zeros_like(state[:, :1]), state[:, :-1]), 1)
        return states


def delay(x, rows):
    """Moves [batch, heads, time, head_dim] to later rows."""
    return x if rows == 0 else torch.cat((torch.zeros_like(x[:, :, :rows]), x[:, :, :-rows]), 2)
