package millrace.streams;

import java.util.LinkedHashMap;
import java.util.Map;
import millrace.engine.Device;
import millrace.engine.ModelCard;

/// What serves, in words for people.
final class ServiceFacts {
    private ServiceFacts() {}

    static Map<String, String> of(
            ModelCard card, ServiceConfig config, String instanceId, String cluster, String vkey, String verifyMode) {
        Map<String, String> facts = new LinkedHashMap<>();
        facts.put("Model", card.name());
        facts.put("Architecture", card.architecture());
        facts.put("Parameters", "%,d".formatted(card.parameters()));
        facts.put("Model digest", card.modelDigest());
        facts.put("Verified at load", verifyMode);
        facts.put("Weights", card.weightFormat());
        facts.put("KV cache", card.kvFormat() + ", %,d tokens".formatted(card.kvCapacityTokens()));
        facts.put("Speculation", card.speculation().id());
        facts.put("Context", "%,d tokens".formatted(card.maxContext()));
        facts.put("Backend", card.backend() + ", " + card.profile());
        if (!card.device().isProcessor()) {
            facts.put("Device", card.device().describe());
        }
        facts.put("Millrace", Versions.millrace());
        facts.put("Engine build", card.build());
        facts.put("Kafka", Versions.kafka());
        facts.put("Java", Runtime.version().toString());
        facts.put("Instance", instanceId);
        facts.put("Cluster", cluster);
        facts.put("Application", config.string("application.id"));
        facts.put("Prompts", config.string("topics.prompts"));
        facts.put("Completions", config.string("topics.completions"));
        facts.put("Audit log", config.string("topics.audit"));
        facts.put("Audit key", vkey);
        return facts;
    }

    /// What computes, for a probe.
    static Map<String, String> ofEngine(ModelCard card) {
        Device device = card.device();
        Map<String, String> data = new LinkedHashMap<>(Map.of("backend", card.backend()));
        data.put("profile", card.profile());
        if (!device.isProcessor()) {
            data.put("device", device.name());
            data.put("capability", device.capability());
            data.put("standin", Boolean.toString(device.standIn()));
        }
        return data;
    }
}
