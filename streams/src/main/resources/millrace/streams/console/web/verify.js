// Checks one leaf of the audit log against a signed checkpoint, with nothing but the browser's own cryptography. The rules
// are those of docs/audit-format.md: RFC 6962 hashes, C2SP checkpoints and signed notes, Avro's binary form.

const TEXT = new TextEncoder();
const STRICT = new TextDecoder("utf-8", { fatal: true });
const LEAF_TAG = TEXT.encode("kafka-attest-leaf/v1\n");
const ED25519 = 1;

export const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

export function unhex(text) {
  if (!/^([0-9a-f]{2})*$/.test(text)) throw new Error("expected hexadecimal digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function base64(text) {
  const binary = atob(text);
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

function join(...parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { all.set(part, at); at += part.length; }
  return all;
}

const same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

/** Whether this page may use the browser's cryptography: over https, or on this machine. */
export const canVerify = () => globalThis.crypto?.subtle !== undefined;

export async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));
}

export const leafHash = (fingerprint, body) => sha256(Uint8Array.of(0), LEAF_TAG, fingerprint, body);

/** The root that a leaf and its path lead to, after RFC 9162, 2.1.3.2; null where the path is too short or too long. */
export async function rootOf(leaf, index, size, path) {
  if (index >= size) return null;
  let at = index;
  let last = size - 1n;
  let node = leaf;
  for (const sibling of path) {
    if (last === 0n) return null;
    if ((at & 1n) === 1n || at === last) {
      node = await sha256(Uint8Array.of(1), sibling, node);
      while ((at & 1n) === 0n && at !== 0n) { at >>= 1n; last >>= 1n; }
    } else {
      node = await sha256(Uint8Array.of(1), node, sibling);
    }
    at >>= 1n;
    last >>= 1n;
  }
  return last === 0n ? node : null;
}

/** A checkpoint as a signed note: what it says, the bytes that are signed, and its signature lines. */
export function parseNote(note) {
  const split = note.lastIndexOf("\n\n");
  if (split < 0 || !note.endsWith("\n")) throw new Error("the checkpoint is no signed note");
  const text = note.slice(0, split + 1);
  const [origin, size, root, ...rest] = text.split("\n");
  if (rest.length !== 1 || !/^(0|[1-9][0-9]*)$/.test(size)) throw new Error("the checkpoint is not origin, size and root");
  const lines = note.slice(split + 2, -1).split("\n").map((line) => {
    const match = /^\u2014 (\S+) (\S+)$/.exec(line);
    if (!match) throw new Error("the checkpoint has a line that is no signature");
    const blob = base64(match[2]);
    return { name: match[1], id: hex(blob.slice(0, 4)), signature: blob.slice(4) };
  });
  return { origin, size: BigInt(size), root: base64(root), signed: TEXT.encode(text), lines };
}

/** A public key as text: name+id+key. Its id is checked. */
export async function parseKey(vkey) {
  const match = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(vkey.trim());
  if (!match) throw new Error("expected name+id+key, as `millrace audit keygen --show` prints it");
  const blob = base64(match[3]);
  if (blob.length !== 33 || blob[0] !== ED25519) throw new Error("expected an Ed25519 key");
  const id = hex((await sha256(TEXT.encode(match[1] + "\n"), blob)).slice(0, 4));
  if (id !== match[2]) throw new Error(`the key's id is ${id}, not ${match[2]}: a character is wrong`);
  return { name: match[1], id, key: blob.slice(1) };
}

/** "valid", "wrong", "absent" (the key has not signed), or "unsupported" (this browser has no Ed25519). */
export async function signature(note, key) {
  const line = note.lines.find((each) => each.name === key.name && each.id === key.id);
  if (!line) return "absent";
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key.key, { name: "Ed25519" }, false, ["verify"]);
  } catch {
    return "unsupported";
  }
  return (await crypto.subtle.verify({ name: "Ed25519" }, imported, line.signature, note.signed)) ? "valid" : "wrong";
}

/** Reads Avro's binary form by a schema in Parsing Canonical Form; every byte must belong to the record. */
export function decode(schema, bytes) {
  const names = new Map();
  let at = 0;
  const byte = () => {
    if (at >= bytes.length) throw new Error("the leaf ends too soon");
    return bytes[at++];
  };
  const take = (count) => {
    if (count < 0 || at + count > bytes.length) throw new Error("the leaf ends too soon");
    return bytes.subarray(at, at += count);
  };
  const long = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (shift > 63n) throw new Error("the leaf has a number that is too long");
      const next = byte();
      value |= BigInt(next & 0x7f) << shift;
      if (next < 0x80) break;
    }
    return BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
  };
  const items = (read) => {
    const all = [];
    for (let count = long(); count !== 0n; count = long()) {
      if (count < 0n) { count = -count; long(); }
      for (; count > 0n; count--) all.push(read());
    }
    return all;
  };
  const read = (type) => {
    if (Array.isArray(type)) return read(type[Number(long())]);
    const kind = typeof type === "string" ? type : type.type;
    if (type.name) names.set(type.name, type);
    switch (kind) {
      case "null": return null;
      case "boolean": return byte() !== 0;
      case "int": return Number(long());
      case "long": return long();
      case "float": { const b = take(4); return new DataView(b.buffer, b.byteOffset).getFloat32(0, true); }
      case "double": { const b = take(8); return new DataView(b.buffer, b.byteOffset).getFloat64(0, true); }
      case "bytes": return take(Number(long())).slice();
      case "string": return STRICT.decode(take(Number(long())));
      case "fixed": return take(type.size).slice();
      case "enum": return type.symbols[Number(long())];
      case "array": return items(() => read(type.items));
      case "map": return items(() => [read("string"), read(type.values)]);
      case "record": return Object.fromEntries(type.fields.map((field) => [field.name, read(field.type)]));
      default:
        if (!names.has(kind)) throw new Error(`the schema has no type ${kind}`);
        return read(names.get(kind));
    }
  };
  define(schema, names);
  const record = read(schema);
  if (at !== bytes.length) throw new Error("the leaf has bytes that belong to no field");
  return record;
}

/** A name may be used where the value that defines it is absent: all are learned first. */
function define(type, names) {
  if (Array.isArray(type)) type.forEach((each) => define(each, names));
  if (type === null || typeof type !== "object" || Array.isArray(type)) return;
  if (type.name) names.set(type.name, type);
  define(type.items ?? null, names);
  define(type.values ?? null, names);
  for (const field of type.fields ?? []) define(field.type, names);
  if (typeof type.type === "object") define(type.type, names);
}

/**
 * Checks one leaf, step by step.
 *
 * row    what the table shows
 * proof  what the service answers: body, fingerprint, path, note
 * schema the text of the schema that the leaf was written with
 * vkey   the key to verify with, and whether the reader gave it
 */
export async function verify(row, proof, schema, vkey, own) {
  const steps = [];
  const step = (state, words) => { steps.push({ state, words }); return state !== "bad"; };
  let leaf = null;
  const result = () => ({ steps, leaf, verified: steps.every((each) => each.state === "good") });

  const fingerprint = unhex(proof.fingerprint);
  const body = base64(proof.body);
  const hash = await leafHash(fingerprint, body);
  if (!step(hex(hash) === row.leaf ? "good" : "bad", `The ${body.length} bytes of the leaf hash to ${hex(hash).slice(0, 16)}\u2026`)) return result();

  const known = same(await sha256(TEXT.encode(schema)), fingerprint);
  if (!step(known ? "good" : "bad", "Their schema is the one that the hash covers")) return result();
  leaf = decode(JSON.parse(schema), body);
  const agrees = leaf.log_origin === row.origin && leaf.seq === BigInt(row.seq) && leaf.request_id === row.request
      && leaf.event === row.event && leaf.verdict === row.verdict && leaf.finish === row.finish && leaf.error_code === row.code
      && leaf.prompt_tokens === row.promptTokens && leaf.completion_tokens === row.completionTokens;
  if (!step(agrees ? "good" : "bad", "They say what this row says")) return result();

  if (!proof.path || !proof.note) {
    step("warn", "No checkpoint covers the leaf yet");
    return result();
  }
  const note = parseNote(proof.note);
  const root = await rootOf(hash, BigInt(row.seq), note.size, proof.path.map(unhex));
  if (!step(root !== null && same(root, note.root) && note.origin === row.origin ? "good" : "bad",
      `Leaf ${row.seq} is in the tree of ${note.size} leaves of ${note.origin}: ${proof.path.length} hashes lead to its root ${hex(note.root).slice(0, 16)}\u2026`)) {
    return result();
  }
  const key = await parseKey(vkey);
  const word = `${key.name}+${key.id}`;
  switch (await signature(note, key)) {
    case "valid": step("good", own ? `That tree is signed with your key ${word}` : `That tree is signed with ${word}, the key that this service names`); break;
    case "wrong": step("bad", `The signature of ${word} is wrong`); break;
    case "absent": step("bad", `The tree is not signed with ${word}, but with ${note.lines.map((each) => `${each.name}+${each.id}`).join(", ")}`); break;
    default: step("warn", `This browser cannot check Ed25519 signatures: verify the one of ${word} with millrace audit check-proof`);
  }
  return result();
}
