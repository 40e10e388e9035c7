// Clients of other makers against a broker and a registry: node clients.mjs BOOTSTRAP REGISTRY_URL
//
// Lists the topics, decodes the completion on llm.completions with two registry clients, registers a schema of its own
// and sends one prompt with each client to llm.prompts. Prints one JSON object on stdout.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { Kafka, logLevel } = require("kafkajs");
const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");
const { SchemaRegistryClient, SerdeType, AvroSerializer, AvroDeserializer } = require("@confluentinc/schemaregistry");

const [bootstrap, registryUrl] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "foreign", brokers: [bootstrap], logLevel: logLevel.ERROR });
const kafkajsRegistry = new SchemaRegistry({ host: registryUrl });
const confluentRegistry = new SchemaRegistryClient({ baseURLs: [registryUrl] });
const result = {};

async function listTopics() {
  const admin = kafka.admin();
  await admin.connect();
  result.topics = (await admin.listTopics()).sort();
  await admin.disconnect();
}

async function readOne(topic) {
  const consumer = kafka.consumer({ groupId: "foreign" });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const message = await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("no record on " + topic)), 20000).unref();
    consumer.run({ eachMessage: async ({ message }) => resolve(message) });
  });
  await consumer.disconnect();
  return message;
}

async function decodeCompletion() {
  const message = await readOne("llm.completions");
  const seen = (c) => ({ request_id: c.request_id, text: c.text, finish_reason: c.finish_reason, total: c.usage.completion_tokens });
  result.header = message.headers.traceparent?.toString();
  result.kafkajs = seen(await kafkajsRegistry.decode(message.value));
  const deserializer = new AvroDeserializer(confluentRegistry, SerdeType.VALUE, {});
  result.confluent = seen(await deserializer.deserialize("llm.completions", message.value));
}

async function registerSchemas() {
  const schema = (name) => JSON.stringify({
    type: "record", namespace: "foreign", name, fields: [{ name: "a", type: "string" }],
  });
  const { id } = await kafkajsRegistry.register(
    { type: SchemaType.AVRO, schema: schema("One") }, { subject: "foreign-one-value" });
  const two = await confluentRegistry.register("foreign-two-value", { schemaType: "AVRO", schema: schema("Two") });
  result.registered = [id, two];
  result.subjects = (await confluentRegistry.getAllSubjects()).sort();
  result.compatible = await confluentRegistry.testCompatibility(
    "foreign-two-value", -1, { schemaType: "AVRO", schema: schema("Three") });
}

async function sendPrompts() {
  const producer = kafka.producer();
  await producer.connect();
  const id = await kafkajsRegistry.getLatestSchemaId("llm.prompts-value");
  const first = await kafkajsRegistry.encode(id, { request_id: "kafkajs", prompt: "hello" });
  const serializer = new AvroSerializer(confluentRegistry, SerdeType.VALUE, { useLatestVersion: true });
  const second = await serializer.serialize("llm.prompts", { request_id: "confluent", prompt: "hello" });
  await producer.send({
    topic: "llm.prompts",
    messages: [{ key: "k", value: first }, { key: "k", value: second }],
  });
  await producer.disconnect();
}

await listTopics();
await decodeCompletion();
await registerSchemas();
await sendPrompts();
console.log(JSON.stringify(result));
process.exit(0);
