package millrace.streams;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.jvm.JvmGcMetrics;
import io.micrometer.core.instrument.binder.jvm.JvmMemoryMetrics;
import io.micrometer.core.instrument.binder.jvm.JvmThreadMetrics;
import io.micrometer.core.instrument.binder.system.ProcessorMetrics;
import io.micrometer.core.instrument.binder.system.UptimeMetrics;
import java.time.Clock;
import java.util.function.BooleanSupplier;
import millrace.engine.Device;
import millrace.engine.ModelCard;
import millrace.engine.Speculation;
import millrace.engine.TextEngine;

/// Meters of what a running service asks others for: its engine, and the machine.
final class ServiceMeters {
    private ServiceMeters() {}

    static void bind(
            ServiceMetrics metrics, ServiceConfig config, TextEngine engine, String instanceId, String verifyMode, BooleanSupplier serving) {
        ModelCard card = engine.card();
        metrics.serves(card.name());
        metrics.fact("millrace.info", "version", Versions.millrace(), "instance", instanceId, "model", card.name(),
                "backend", card.backend(), "profile", card.profile(), "weight_format", card.weightFormat(),
                "kv_format", card.kvFormat(), "speculation", card.speculation().id());
        metrics.gauge("millrace.up", () -> serving.getAsBoolean() ? 1 : 0);
        metrics.gauge("millrace.kafka.certificate.expiry.seconds", new ClientCertificate(config.kafka(), Clock.systemUTC())::secondsLeft);
        metrics.gauge("millrace.inflight", engine::load);
        metrics.gauge("millrace.kv.capacity.tokens", () -> engine.card().kvCapacityTokens());
        metrics.gauge("millrace.kv.pages", () -> engine.stats().kvPages());
        metrics.gauge("millrace.kv.pages.free", () -> engine.stats().kvFreePages());
        metrics.gauge("millrace.kv.pages.cached", () -> engine.stats().cachedPages());
        metrics.counter("millrace.kv.prefix.hit.tokens", () -> engine.stats().prefixHitTokens());
        metrics.counter("millrace.kv.prefix.evictions", () -> engine.stats().prefixEvictions());
        metrics.counter("millrace.engine.steps", () -> engine.stats().steps());
        metrics.counter("millrace.engine.preemptions", () -> engine.stats().preemptions());
        speculation(metrics, engine);
        Device device = card.device();
        if (!device.isProcessor()) {
            metrics.fact("millrace.engine.device.info", "name", device.name(), "capability", device.capability(),
                    "driver", device.driver(), "image", device.imageSha256(), "standin", Boolean.toString(device.standIn()));
        }
        integrity(metrics, engine, verifyMode);
    }

    /// By position: the first token that is drafted behind those of a sequence is 1.
    private static void speculation(ServiceMetrics metrics, TextEngine engine) {
        metrics.counter("millrace.speculation.steps", () -> engine.stats().drafts().steps());
        for (int i = 0; i < Speculation.MOST_TOKENS; i++) {
            int index = i;
            String position = Integer.toString(i + 1);
            metrics.counter(
                    "millrace.speculation.drafted", () -> engine.stats().drafts().drafted().get(index), "position", position);
            metrics.counter(
                    "millrace.speculation.accepted", () -> engine.stats().drafts().accepted().get(index), "position", position);
        }
    }

    private static void integrity(ServiceMetrics metrics, TextEngine engine, String verifyMode) {
        String mismatches = "millrace.integrity.mismatches";
        metrics.counter(mismatches, () -> engine.integrity().weightFaults(), "kind", "weight");
        metrics.counter(mismatches, () -> engine.integrity().kvFaults(), "kind", "kv");
        metrics.counter(mismatches, () -> engine.integrity().computeFaults(), "kind", "compute");
        metrics.counter("millrace.integrity.canary.failures", () -> engine.integrity().canaryFailures());
        metrics.counter("millrace.integrity.scrub.passes", () -> engine.integrity().scrubGeneration());
        metrics.gauge("millrace.integrity.scrub.age.seconds", () -> seconds(engine.integrity().scrubAgeMs()));
        metrics.gauge("millrace.integrity.canary.age.seconds", () -> seconds(engine.integrity().canaryAgeMs()));
        metrics.gauge("millrace.integrity.admitting", () -> engine.admitting() ? 1 : 0);
        metrics.gauge("millrace.integrity.refused", () -> engine.failure() == null ? 0 : 1);
        metrics.gauge("millrace.integrity.verify.problems", () -> engine.card().trust().problems().size());
        metrics.fact("millrace.integrity.verify.mode", "mode", verifyMode);
    }

    /// @param ms -1 where there is no such age
    private static double seconds(long ms) {
        return ms < 0 ? Double.NaN : ms / 1_000.0;
    }

    /// Memory, threads, collections, processor and age of this process.
    ///
    /// @return what is to be closed with it
    static AutoCloseable bindProcess(MeterRegistry meters) {
        new JvmMemoryMetrics().bindTo(meters);
        new JvmThreadMetrics().bindTo(meters);
        new ProcessorMetrics().bindTo(meters);
        new UptimeMetrics().bindTo(meters);
        JvmGcMetrics collections = new JvmGcMetrics();
        collections.bindTo(meters);
        return collections;
    }
}
