// Sends one prompt and waits for its committed completion.
//
//     npm install && node ask.mjs BOOTSTRAP REGISTRY QUESTION
import { randomUUID } from "node:crypto";
import { Kafka, logLevel } from "kafkajs";
import { SchemaRegistry, SchemaType } from "@kafkajs/confluent-schema-registry";
import avro from "avsc";

const [bootstrap, registryUrl, question] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "app-javascript", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
// A seed has 64 bits, more than a number of JavaScript's: longs are BigInt here.
const long = avro.types.LongType.__with({
  fromBuffer: (buffer) => buffer.readBigInt64LE(),
  toBuffer: (n) => { const buffer = Buffer.alloc(8); buffer.writeBigInt64LE(n); return buffer; },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (n) => typeof n === "bigint",
  compare: (a, b) => (a === b ? 0 : a < b ? -1 : 1),
});
const registry = new SchemaRegistry({ host: registryUrl },
  { [SchemaType.AVRO]: { typeHook: (schema) => (schema === "long" ? long : undefined) } });
const request = randomUUID();

// 1. Listen before asking. kafkajs reads committed records only unless it is told otherwise.
const consumer = kafka.consumer({ groupId: `app-javascript-${request}`, readUncommitted: false });
await consumer.connect();
await consumer.subscribe({ topic: "llm.completions", fromBeginning: true });
const answer = new Promise((resolve) => {
  consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => {
      const completion = await registry.decode(message.value);
      if (completion.request_id === request) resolve(completion);
    },
  });
});

// 2. The prompt, in the schema that the registry has. Fields that are left out take the schema's defaults.
const producer = kafka.producer({ idempotent: true });
await producer.connect();
const schema = await registry.getLatestSchemaId("llm.prompts-value");
const value = await registry.encode(schema, {
  request_id: request,
  messages: [{ role: "user", content: question, tool_calls: [] }],
});
await producer.send({ topic: "llm.prompts", acks: -1, messages: [{ key: request, value }] });

// 3. The completion.
const completion = await answer;
console.log(JSON.stringify({ text: completion.text, finish_reason: completion.finish_reason, leaf: Number(completion.audit?.seq) }));
await Promise.all([consumer.disconnect(), producer.disconnect()]);
