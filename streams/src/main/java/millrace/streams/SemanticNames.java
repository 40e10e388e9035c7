package millrace.streams;

/// Names and histogram bounds of OpenTelemetry's semantic conventions, for generative models and for messaging, as they
/// stood in 2026: both are still in development, so all of them are here and nowhere else.
final class SemanticNames {
    static final String SYSTEM = "kafka";
    /// The provider: the conventions list known ones, and let others name themselves.
    static final String PROVIDER = "millrace";

    static final String GEN_AI_PROVIDER = "gen_ai.provider.name";
    static final String GEN_AI_OPERATION = "gen_ai.operation.name";
    static final String GEN_AI_REQUEST_MODEL = "gen_ai.request.model";
    static final String GEN_AI_RESPONSE_MODEL = "gen_ai.response.model";
    static final String GEN_AI_RESPONSE_ID = "gen_ai.response.id";
    static final String GEN_AI_FINISH_REASONS = "gen_ai.response.finish_reasons";
    static final String GEN_AI_MAX_TOKENS = "gen_ai.request.max_tokens";
    static final String GEN_AI_TEMPERATURE = "gen_ai.request.temperature";
    static final String GEN_AI_SEED = "gen_ai.request.seed";
    static final String GEN_AI_INPUT_TOKENS = "gen_ai.usage.input_tokens";
    static final String GEN_AI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
    static final String GEN_AI_CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens";
    static final String GEN_AI_TOKEN_TYPE = "gen_ai.token.type";
    static final String ERROR_TYPE = "error.type";
    static final String CHAT = "chat";
    static final String TEXT_COMPLETION = "text_completion";

    static final String MESSAGING_SYSTEM = "messaging.system";
    static final String MESSAGING_OPERATION = "messaging.operation.name";
    static final String MESSAGING_OPERATION_TYPE = "messaging.operation.type";
    static final String MESSAGING_DESTINATION = "messaging.destination.name";
    static final String MESSAGING_PARTITION = "messaging.destination.partition.id";
    static final String MESSAGING_OFFSET = "messaging.kafka.offset";
    static final String MESSAGING_GROUP = "messaging.consumer.group.name";

    static final String TOKEN_USAGE = "gen_ai.client.token.usage";
    static final String REQUEST_DURATION = "gen_ai.server.request.duration";
    static final String TIME_TO_FIRST_TOKEN = "gen_ai.server.time_to_first_token";
    static final String TIME_PER_OUTPUT_TOKEN = "gen_ai.server.time_per_output_token";
    static final String CONSUMED_MESSAGES = "messaging.client.consumed.messages";
    static final String PROCESS_DURATION = "messaging.process.duration";

    /// Bounds in seconds. The conventions' own, and beyond them what small models and long queues need.
    private static final double[] REQUEST_SECONDS =
            {0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 655.36};
    private static final double[] FIRST_TOKEN_SECONDS =
            {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 15, 30, 60, 300};
    private static final double[] PER_TOKEN_SECONDS =
            {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5};
    private static final double[] MESSAGE_SECONDS =
            {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10};
    private static final double[] TOKENS =
            {1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864};

    private SemanticNames() {}

    static double[] requestSeconds() {
        return REQUEST_SECONDS.clone();
    }

    static double[] firstTokenSeconds() {
        return FIRST_TOKEN_SECONDS.clone();
    }

    static double[] perTokenSeconds() {
        return PER_TOKEN_SECONDS.clone();
    }

    static double[] messageSeconds() {
        return MESSAGE_SECONDS.clone();
    }

    static double[] tokens() {
        return TOKENS.clone();
    }
}
