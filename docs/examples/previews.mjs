// Sends a prompt, shows its text while it is generated, and takes the attested completion: node previews.mjs BOOTSTRAP REGISTRY_URL
// "QUESTION" [CANCEL_AFTER_DELTAS]
//
// npm install kafkajs @kafkajs/confluent-schema-registry avsc
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";

const require = createRequire(import.meta.url);
const { Kafka, logLevel } = require("kafkajs");
const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");
const { types } = require("avsc");

const [bootstrap, registryUrl, question, cancelAfter] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "previews", brokers: [bootstrap], logLevel: logLevel.ERROR });
// A seed has 64 bits, a number of JavaScript 53: longs are read as BigInt.
const long = types.LongType.__with({
  fromBuffer: (bytes) => bytes.readBigInt64LE(),
  toBuffer: (value) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(value);
    return bytes;
  },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (value) => typeof value === "bigint",
  compare: (a, b) => (a === b ? 0 : a < b ? -1 : 1),
});
const registry = new SchemaRegistry({ host: registryUrl }, {
  [SchemaType.AVRO]: { typeHook: (schema) => (schema === "long" || schema?.type === "long" ? long : undefined) },
});
const id = randomUUID();

/// What is on the screen. A higher attempt, and RESTART, void it; a number that is missing is a hole.
const screen = { attempt: -1n, next: 0n, text: "", deltas: 0, holes: 0, restarts: 0 };

function show(delta) {
  const { attempt, seq } = delta;
  if (attempt < screen.attempt) return;
  if (attempt > screen.attempt || delta.kind === "RESTART") {
    if (screen.text) screen.restarts++;
    if (attempt > screen.attempt) screen.next = 0n;
    screen.attempt = attempt;
    screen.text = "";
  }
  if (seq > screen.next) screen.holes++;
  screen.next = seq + 1n;
  if (delta.kind === "CONTENT") {
    screen.text += delta.text;
    screen.deltas++;
    process.stderr.write(delta.text);
  }
}

const producer = kafka.producer({ idempotent: true });

async function send(topic, value) {
  const schema = await registry.getLatestSchemaId(topic + "-value");
  // The key decides the partition: a cancellation has its prompt's.
  await producer.send({ topic, messages: [{ key: id, value: await registry.encode(schema, value) }] });
}

const consumer = kafka.consumer({ groupId: "previews-" + id });
let cancelled = false;

const completion = new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error("no completion within 60 s")), 60_000).unref();
  consumer.on("consumer.crash", ({ payload }) => reject(payload.error));
  consumer.on("consumer.group_join", () => {
    // The places are taken: from here on nothing is missed.
    send("llm.prompts", { request_id: id, messages: [{ role: "user", content: question }], preview: true }).catch(reject);
  });
  (async () => {
    await producer.connect();
    await consumer.connect();
    // kafkajs reads committed records only, unless it is told otherwise.
    await consumer.subscribe({ topics: ["llm.deltas", "llm.completions"], fromBeginning: false });
    await consumer.run({
      eachMessage: async ({ topic, message }) => {
        if (message.key?.toString() !== id) return;
        const value = await registry.decode(message.value);
        if (topic === "llm.completions") {
          resolve(value);
          return;
        }
        show(value);
        if (cancelAfter && !cancelled && screen.deltas >= Number(cancelAfter)) {
          cancelled = true;
          await send("llm.cancels", { kind: "CANCEL", request_id: id, issued_ms: BigInt(Date.now()) });
        }
      },
    });
  })().catch(reject);
});

const answer = await completion;
process.stderr.write("\n");
console.log(JSON.stringify({
  text: answer.reply?.content ?? answer.text,
  finish_reason: answer.finish_reason,
  leaf: String(answer.audit.seq),
  shown: screen.text,
  deltas: screen.deltas,
  holes: screen.holes,
  restarts: screen.restarts,
}));
await consumer.disconnect();
await producer.disconnect();
process.exit(0);
