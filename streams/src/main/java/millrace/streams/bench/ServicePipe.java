package millrace.streams.bench;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.TextEngine;
import millrace.schemas.Completion;
import millrace.schemas.Prompt;
import millrace.streams.ServiceConfig;
import millrace.streams.demo.Question;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/// Producer and committed consumer of a running service, used by one thread. Every answer is compared, token by token,
/// with the engine's own.
///
/// @param topic of the prompts
record ServicePipe(
        String topic,
        KafkaProducer<byte[], byte[]> producer,
        KafkaConsumer<byte[], byte[]> consumer,
        AvroEncoder<Prompt> encoder,
        AvroDecoder<Completion> decoder) {
    private static final int MAX_TOKENS = 256;
    private static final Duration PATIENCE = Duration.ofMinutes(5);

    /// What came of prompts that arrived at a rate.
    ///
    /// @param latency from the moment a prompt was due to its committed completion
    /// @param seconds from the first prompt to the last completion
    record Arrivals(Spread latency, int prompts, long tokens, double seconds) {}

    static ServicePipe of(
            ServiceConfig config,
            SchemaRegistryClient registry,
            KafkaProducer<byte[], byte[]> producer,
            KafkaConsumer<byte[], byte[]> consumer) {
        String topic = config.string("topics.prompts");
        return new ServicePipe(topic, producer, consumer,
                AvroEncoder.open(registry, Prompt.class, topic + "-value", AvroSerdeConfig.of(config.registry())),
                new AvroDecoder<>(registry, Completion.class));
    }

    /// All questions at once on the engine alone; returns tokens per second.
    ///
    /// @param answers takes the tokens of each answer
    static double engineAlone(TextEngine engine, List<Question> questions, Map<Integer, List<Integer>> answers) {
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < questions.size(); i++) {
            requests.add(GenerationRequest.greedy("q" + i,
                    new PromptInput.Messages(List.of(ChatMessage.of("user", questions.get(i).prompt())), ChatOptions.DEFAULT),
                    MAX_TOKENS));
        }
        long start = System.nanoTime();
        List<GenerationResult> results = Run.all(engine, requests);
        double seconds = (System.nanoTime() - start) / 1e9;
        long tokens = 0;
        for (int i = 0; i < results.size(); i++) {
            answers.put(i, results.get(i).tokenIds());
            tokens += results.get(i).usage().completionTokens();
        }
        return tokens / seconds;
    }

    /// All questions at once through the service; returns tokens per second.
    double ask(List<Question> questions, String prefix, Map<Integer, List<Integer>> expected) {
        long[] due = new long[questions.size()];
        Arrivals all = run(questions, prefix, expected, due);
        return all.tokens() / all.seconds();
    }

    /// As many questions at random moments, so many per second on average, without waiting for answers.
    Arrivals arrive(
            List<Question> questions, String prefix, Map<Integer, List<Integer>> expected, double perSecond, long seed) {
        return run(questions, prefix, expected, OpenLoop.moments(questions.size(), perSecond, seed));
    }

    private Arrivals run(List<Question> questions, String prefix, Map<Integer, List<Integer>> expected, long[] due) {
        long[] latencies = new long[due.length];
        long tokens = 0;
        int sent = 0;
        int answered = 0;
        long start = System.nanoTime();
        long last = start;
        while (answered < due.length) {
            long now = System.nanoTime();
            while (sent < due.length && now - start >= due[sent]) {
                String id = prefix + ":" + sent;
                producer.send(new ProducerRecord<>(
                        topic, id.getBytes(StandardCharsets.UTF_8), encoder.encode(questions.get(sent).event(id))));
                sent++;
            }
            if (now - last > PATIENCE.toNanos()) {
                throw new IllegalStateException((due.length - answered) + " questions were not answered within "
                        + PATIENCE.toMinutes() + " minutes");
            }
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(sent < due.length ? 1 : 50))) {
                last = System.nanoTime();
                Completion completion = decoder.decode(record.value());
                int number = Integer.parseInt(completion.getRequestId().substring(prefix.length() + 1));
                if (!expected.get(number).equals(completion.getTokenIds())) {
                    throw new IllegalStateException("question " + number + ": the service answered other tokens than the engine");
                }
                latencies[number] = last - start - due[number];
                tokens += completion.getUsage().getCompletionTokens();
                answered++;
            }
        }
        return new Arrivals(Spread.ofNanos(latencies), due.length, tokens, (last - start) / 1e9);
    }
}
