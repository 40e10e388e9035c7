// The OpenAI client library against a gateway whose engine echoes: node gateway.mjs BASE_URL
//
// Asks once whole and once as a stream, for something that is refused, and runs a batch. Prints one JSON object on stdout.
import OpenAI, { toFile } from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none" });
const ask = (content, more = {}) => ({ model: "no-op", temperature: 0, messages: [{ role: "user", content }], ...more });
const result = {};

const { data, response } = await client.chat.completions.create(ask("hello there")).withResponse();
result.whole = data.choices[0].message.content;
result.audit = response.headers.get("millrace-audit");

result.streamed = "";
const stream = await client.chat.completions.create(ask("once upon a time", { stream: true, stream_options: { include_usage: true } }));
for await (const chunk of stream) {
  result.streamed += chunk.choices[0]?.delta.content ?? "";
  result.finish = chunk.choices[0]?.finish_reason ?? result.finish;
  result.usage = chunk.usage ?? result.usage;
}

try {
  await client.chat.completions.create(ask("x", { presence_penalty: 1 }));
} catch (e) {
  result.refused = { status: e.status, param: e.param, code: e.code };
}

const line = { custom_id: "one", method: "POST", url: "/v1/chat/completions", body: ask("in a batch") };
const file = await client.files.create({ file: await toFile(Buffer.from(JSON.stringify(line) + "\n"), "one.jsonl"), purpose: "batch" });
let batch = await client.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
for (let i = 0; i < 600 && batch.status !== "completed"; i++) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  batch = await client.batches.retrieve(batch.id);
}
const text = await (await client.files.content(batch.output_file_id)).text();
result.batch = JSON.parse(text).response.body.choices[0].message.content;
console.log(JSON.stringify(result));
