"""Trains a draft layer ("MTP") for glm-tiny and writes it as GLM-4.6 ships one: an extra shard, an index and a config.

The model stays as it is. It answers questions and continues text, and the draft layer learns to give the distribution
that the model has one token later, over three chained drafts. README.md beside this file says how to run it.
"""

import argparse
import hashlib
import json
import math
import random
import time
from pathlib import Path

import torch

from glm import DraftLayer, Model, is_float32, read_safetensors, write_safetensors
from questions import questions

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "streams/src/main/resources/models/glm-tiny"
OUT = ROOT / "streams/src/main/resources/models/glm-tiny-mtp"
GOLDEN = ROOT / "streams/src/test/resources/golden/glm-tiny.jsonl"

DEPTH = 3
DEPTH_WEIGHTS = (1.0, 0.7, 0.5)
TOLERANCE = 2e-4
SPEAKERS = ("First Citizen", "Second Servant", "King", "Queen", "Duke", "Romeo", "Juliet", "Nurse", "Messenger", "Clown",
            "Gloucester", "Warwick", "Petruchio", "Katharina", "Menenius", "Coriolanus", "Angelo", "Isabella", "Lucio",
            "Leontes", "Camillo", "Paulina", "Prospero", "Ariel", "Bolingbroke", "York", "Buckingham", "Friar Laurence")


def log(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def check(model):
    """The forward pass against the reference's logits along greedy paths."""
    worst = 0.0
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        golden = json.loads(line)
        prompt, path = golden["prompt_ids"], golden["completion_ids"][:len(golden["top10"])]
        logits = model.logits(model.hidden(torch.tensor([prompt + path[:-1]])))[0, len(prompt) - 1:]
        for row, top in zip(logits, golden["top10"]):
            worst = max(worst, max(abs(row[token].item() - value) for token, value in top))
    log(f"largest difference from the reference's logits: {worst:.1e}")
    if worst > TOLERANCE:
        raise SystemExit(f"expected at most {TOLERANCE}")


# What the model says.

def grouped(rows, size, key):
    """Batches of at most `size` rows that agree in `key`."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    for _, group in sorted(groups.items()):
        for start in range(0, len(group), size):
            yield group[start:start + size]


def turn(model, question):
    return model.tokenizer.encode(f"<|user|>\n{question}<|assistant|>\n")


def answer(model, conversations, asked):
    """Asks each conversation a question and appends the model's greedy answer; marks what the model wrote."""
    for conversation, question in zip(conversations, asked):
        ids, said = conversation
        tokens = turn(model, question)
        if ids[-1:] == tokens[:1]:
            tokens = tokens[1:]
        ids += tokens
        said += [False] * len(tokens)
    for batch in grouped(conversations, 256, lambda conversation: len(conversation[0])):
        for (ids, said), completion in zip(batch, model.generate([c[0] for c in batch], 24)):
            ids += completion
            said += [True] * len(completion)


def conversations(model, asked):
    """Conversations of one to three turns over all questions, as (ids, whether the model wrote the id)."""
    rows, asked = [], list(asked)
    while asked:
        start = model.tokenizer.encode("[gMASK]<sop>")
        turns = min(len(asked), 1 + len(rows) % 3)
        rows.append(((start, [False] * len(start)), [asked.pop() for _ in range(turns)]))
    for n in range(3):
        with_turn = [(row, turns) for row, turns in rows if len(turns) > n]
        # What was cut off is not carried on.
        with_turn = [(row, turns) for row, turns in with_turn if n == 0 or row[0][-1] in model.stops]
        answer(model, [row for row, _ in with_turn], [turns[n] for _, turns in with_turn])
    return [row for row, _ in rows]


def texts(model, count, length, generator, chooser):
    """Text of the model's own: sampled, sampled more coolly, and sampled first and then greedy."""
    starts = [model.tokenizer.encode(chooser.choice(SPEAKERS) + ":\n") for _ in range(count)]
    rows = []
    for batch in grouped(starts, 128, len):
        for style in range(3):
            prompts = batch[style::3]
            if not prompts:
                continue
            temperature = (1.0, 0.7, 1.0)[style]
            sampled = 40 if style == 2 else length
            part = model.generate(prompts, sampled, temperature, generator, stop=False)
            whole = [prompt + tokens for prompt, tokens in zip(prompts, part)]
            if style == 2:
                rest = model.generate(whole, length - sampled, stop=False)
                whole = [tokens + more for tokens, more in zip(whole, rest)]
            rows += [(ids, [True] * len(ids)) for ids in whole]
    return rows


def with_hidden(model, rows):
    """Adds the model's hidden states, computed once."""
    done = []
    for batch in grouped(rows, 64, lambda row: len(row[0])):
        hidden = model.hidden(torch.tensor([ids for ids, _ in batch]))
        done += [(torch.tensor(ids), torch.tensor(said), states) for (ids, said), states in zip(batch, hidden)]
    return done


def said(model, kept_out, rounds, generator, chooser):
    """All that the layer is trained on: conversations and texts, as (ids, whether the model wrote the id, hidden states)."""
    asked = [question for question in questions(chooser, rounds) if question not in kept_out]
    chats = with_hidden(model, conversations(model, asked))
    return chats, with_hidden(model, texts(model, 240, 240, generator, chooser))


def seeded(seed):
    """Sources of randomness; each part of a run has its own, so that kept data make no difference to the rest."""
    return torch.Generator().manual_seed(seed), random.Random(seed)


# Training.

def padded(rows):
    """A batch of rows behind which nothing matters: attention is causal and no loss is taken there."""
    pad = torch.nn.utils.rnn.pad_sequence
    return tuple(pad([row[i] for row in rows], batch_first=True) for i in range(3))


def loss_of(draft, rows, load):
    """Mean divergence of the drafts' distributions from those that the model has at the same place."""
    ids, said, hidden = padded(rows)
    states = draft.unroll(ids, hidden, DEPTH, load)
    target_hidden = hidden[:, 1:]
    # Row t is about the token of position t + 2; a chain that begins while the prompt is read is never drafted.
    wanted = torch.cat((said[:, 2:], torch.zeros_like(said[:, :1])), 1)
    total, count = 0.0, 0
    for depth, state in enumerate(states):
        chosen = wanted.clone()
        chosen[:, :depth] = False
        if depth > 0:
            chosen[:, depth:] &= said[:, 1:][:, :-depth]
        else:
            chosen &= said[:, 1:]
        with torch.no_grad():
            expected = draft.model.logits(target_hidden[chosen]).softmax(-1)
        got = draft.model.logits(state[chosen]).log_softmax(-1)
        total = total - DEPTH_WEIGHTS[depth] * (expected * got).sum()
        count += DEPTH_WEIGHTS[depth] * int(chosen.sum())
    return total / count


def batches(rows, tokens, chooser):
    """Batches without end, of rows of similar length and about `tokens` tokens."""
    while True:
        order = sorted(chooser.sample(rows, len(rows)), key=lambda row: len(row[0]))
        parts, part = [], []
        for row in order:
            part.append(row)
            if sum(len(r[0]) for r in part) >= tokens:
                parts.append(part)
                part = []
        chooser.shuffle(parts)
        yield from parts


def train(model, chats, prose, steps, rate, generator, chooser):
    draft = DraftLayer.fresh(model, generator)
    trained = {name: w.requires_grad_() for name, w in draft.weights.items() if not is_float32(name)}
    matrices = [w for w in trained.values() if w.dim() > 1]
    vectors = [w for w in trained.values() if w.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.02}, {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.97), eps=1e-9)
    chat_batches, prose_batches = batches(chats, 900, chooser), batches(prose, 480, chooser)
    bias = draft.weights["mlp.gate.e_score_correction_bias"]
    recent = [0.0, 0.0]
    for step in range(steps):
        share = step / steps
        current = rate * min(1, (step + 1) / 50) * (0.5 + 0.5 * math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = current
        load = torch.zeros(model.config["n_routed_experts"], dtype=torch.long)
        loss = loss_of(draft, next(prose_batches if step % 3 == 2 else chat_batches), load)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        optimizer.step()
        # Experts are balanced by the bias alone, as the family does it.
        bias += 1e-3 * (1 - share) * torch.sign(load.float().mean() - load)
        kind = step % 3 // 2
        recent[kind] += (loss.item() - recent[kind]) * (0.05 if step > 2 else 1)
        if step % 100 == 2 or step + 1 == steps:
            log(f"step {step}: loss {recent[0]:.3f} in conversations, {recent[1]:.3f} in text; "
                f"{time.process_time():.0f} s of CPU so far")
    return {name: w.detach() if is_float32(name) else w.detach().bfloat16().float() for name, w in draft.weights.items()}


# Acceptance.

@torch.no_grad()
def right_drafts(draft, ids, hidden):
    """Whether draft d that stands at row t names the token of position t + 2, as [DEPTH, rows]."""
    states = draft.unroll(ids.unsqueeze(0), hidden.unsqueeze(0), DEPTH)
    right = [draft.model.logits(state[0, :-1]).argmax(-1) == ids[2:] for state in states]
    return torch.stack(right).tolist()


def acceptance(draft, rows):
    """Plays decoding over the model's greedy answers: how many drafts were right by position, then steps and tokens.

    A step checks DEPTH drafts, from position t + 2 on. Those before the first wrong one are kept, as far as the answer goes,
    and the model itself gives one token more. What the prompt's own step gives is not counted.
    """
    accepted, steps, tokens = [0] * DEPTH, 0, 0
    for ids, said, hidden in with_hidden(draft.model, rows):
        right = right_drafts(draft, ids, hidden)
        begin = said.tolist().index(True) - 1
        row = begin
        while row < len(ids) - 2:
            kept = 0
            while kept < min(DEPTH, len(ids) - 2 - row) and right[kept][row + kept]:
                accepted[kept] += 1
                kept += 1
            row += kept + 1
            steps += 1
        tokens += len(ids) - 2 - begin
    return accepted, steps, tokens


def report(draft, name, rows):
    accepted, steps, tokens = acceptance(draft, rows)
    rates = ", ".join(f"{count / steps:.1%}" for count in accepted)
    given = ", ".join(f"{count / max(1, before):.1%}" for before, count in zip([steps, *accepted], accepted))
    log(f"{name}: {tokens} tokens in {steps} steps, {tokens / steps:.2f} each; drafts accepted by position: {rates} of the "
        f"steps, {given} of those whose drafts before were right")


def evaluation(model):
    """Prompts that nothing was trained on, with the model's greedy continuations: questions, and Shakespeare."""
    asked = [json.loads(line)["prompt"] for line in (MODEL / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    start = model.tokenizer.encode("[gMASK]<sop>")
    chats = [(list(start), [False] * len(start)) for _ in asked]
    answer(model, chats, asked)
    ids = model.tokenizer.encode((MODEL / "text.txt").read_text(encoding="utf-8"))
    prompts = [ids[at:at + 96] for at in range(0, len(ids) - 96, 96)]
    prose = []
    for batch in grouped(prompts, 128, len):
        for prompt, more in zip(batch, model.generate(batch, 64)):
            prose.append((prompt + more, [False] * len(prompt) + [True] * len(more)))
    return set(asked), {"questions": chats, "text": prose}


# Output.

def write(draft, out):
    model = draft.model
    out.mkdir(parents=True, exist_ok=True)
    tensors = {draft.prefix() + name: w for name, w in draft.weights.items()}
    write_safetensors(out / "mtp.safetensors", tensors)
    shards = {**{name: "model.safetensors" for name in model.tensors}, **{name: "mtp.safetensors" for name in tensors}}
    size = sum(t.numel() * (4 if is_float32(name) else 2) for name, t in {**model.tensors, **tensors}.items())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(shards.items()))}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    (out / "config.json").write_text(json.dumps({**model.config, "num_nextn_predict_layers": 1}, indent=2) + "\n")
    digest = hashlib.sha256((out / "mtp.safetensors").read_bytes()).hexdigest()
    log(f"wrote {out / 'mtp.safetensors'}: {(out / 'mtp.safetensors').stat().st_size} bytes, sha256 {digest}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="where the shard, the index and the config go")
    parser.add_argument("--cache", type=Path, help="keeps what the model said, and its hidden states, for another run")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--rounds", type=int, default=3, help="how often each fact is asked for")
    parser.add_argument("--evaluate", action="store_true", help="only measures the layer that is there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = Model(MODEL)
    check(model)
    kept_out, held = evaluation(model)
    if options.evaluate:
        prefix = DraftLayer(model, {}).prefix()
        stored = read_safetensors(options.out / "mtp.safetensors")
        draft = DraftLayer(model, {name.removeprefix(prefix): tensor for name, tensor in stored.items()})
    else:
        if options.cache and options.cache.exists():
            chats, prose = torch.load(options.cache)
        else:
            chats, prose = said(model, kept_out, options.rounds, *seeded(options.seed))
            if options.cache:
                torch.save((chats, prose), options.cache)
        log(f"{len(chats)} conversations of {sum(len(c[0]) for c in chats)} tokens, {len(prose)} texts of "
            f"{sum(len(p[0]) for p in prose)}")
        trained = train(model, chats, prose, options.steps, options.rate, *seeded(options.seed))
        draft = DraftLayer(model, trained)
        write(draft, options.out)
    for name, rows in held.items():
        report(draft, name, rows)


if __name__ == "__main__":
    main()
