"""Sends one prompt, waits for its committed completion, and checks what anyone can check of it.

    python3 ask.py BOOTSTRAP REGISTRY QUESTION

Needs confluent-kafka, avro and requests: `apt-get install python3-confluent-kafka python3-avro python3-requests`.
"""
import hashlib
import io
import json
import struct
import sys
import time
import uuid

import avro.io
import avro.schema
import requests
from confluent_kafka import Consumer, Producer, TopicPartition

bootstrap, registry, question = sys.argv[1:4]
schemas = {}


def latest(subject):
    """Id and schema that the registry has for a subject now."""
    answer = requests.get(f"{registry}/subjects/{subject}/versions/latest", timeout=10)
    answer.raise_for_status()
    return answer.json()["id"], avro.schema.parse(answer.json()["schema"])


def by_id(number):
    if number not in schemas:
        answer = requests.get(f"{registry}/schemas/ids/{number}", timeout=10)
        answer.raise_for_status()
        schemas[number] = avro.schema.parse(answer.json()["schema"])
    return schemas[number]


def encode(subject, value):
    """Confluent's wire format: a zero byte, the schema's id, Avro."""
    number, schema = latest(subject)
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, number))
    avro.io.DatumWriter(schema).write(value, avro.io.BinaryEncoder(out))
    return out.getvalue()


def decode(value):
    magic, number = struct.unpack(">bI", value[:5])
    assert magic == 0, "expected Confluent's wire format"
    return avro.io.DatumReader(by_id(number)).read(avro.io.BinaryDecoder(io.BytesIO(value[5:])))


def with_defaults(schema, given):
    """The writer of this library wants every field; the schema says what those that are left out are."""
    return {field.name: given[field.name] if field.name in given else field.default for field in schema.fields}


# 1. Where completions end now: the answer to what is sent next comes behind that. Only what is committed counts.
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "app-python", "enable.auto.commit": False,
                     "isolation.level": "read_committed"})
partitions = consumer.list_topics("llm.completions", timeout=10).topics["llm.completions"].partitions
consumer.assign([TopicPartition("llm.completions", p, consumer.get_watermark_offsets(TopicPartition("llm.completions", p))[1])
                 for p in partitions])

# 2. The prompt. Its key decides its partition: give turns of one conversation the same.
request = str(uuid.uuid4())
schema = latest("llm.prompts-value")[1]
message = {"role": "user", "content": question, "name": None, "tool_call_id": None, "reasoning_content": None, "tool_calls": []}
producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all"})
producer.produce("llm.prompts", key=request, value=encode("llm.prompts-value", with_defaults(
    schema, {"request_id": request, "messages": [message]})))
assert producer.flush(30) == 0, "the broker did not take the prompt"

# 3. The completion.
until = time.monotonic() + 120
while time.monotonic() < until:
    record = consumer.poll(1)
    if record is None or record.error():
        continue
    completion = decode(record.value())
    if completion["request_id"] == request:
        print(json.dumps({"text": completion["text"], "finish_reason": completion["finish_reason"],
                          "leaf": completion["audit"]["seq"] if completion["audit"] else None}))
        consumer.close()
        sys.exit(0)
sys.exit("no completion in time")
