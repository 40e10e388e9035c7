package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Clock;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.function.IntFunction;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.audit.AuditOptions;
import millrace.integrity.audit.AuditReconciler;
import millrace.integrity.audit.Reconciliation;
import millrace.integrity.audit.Reconciliation.Kind;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.avro.Schema;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit reconcile`: completions joined with leaves.
@Command(
        name = "reconcile",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Joins completions with the audit log and lists everything that does not match: missing, orphaned and",
            "duplicate records, records in a wrong topic, other text or facts than were attested. Chain and",
            "signatures are not looked at (audit verify does), so any stretch of time can be taken."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit reconcile",
            "  millrace audit reconcile --since 24h --json",
            "  millrace audit reconcile --since 2026-11-30T00:00:00Z --partition 3",
            "",
            "Exit codes: 0 everything matches, 1 something does not, 2 nothing to match, 3 usage or input/output."
        })
final class AuditReconcileCommand implements Callable<Integer> {
    private static final int SHOWN = 20;

    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Option(names = "--completions-topic", paramLabel = "TOPIC",
            description = "Topic of the completions (default: topics.completions).")
    @Nullable String completionsTopic;

    @Option(names = "--since", paramLabel = "TIME",
            description = "Only records from then on: a time such as 2026-11-30T09:00:00Z, or how long ago, such as 24h.")
    @Nullable String since;

    @Option(names = "--partition", paramLabel = "N", description = "Only this partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--settle-ms", paramLabel = "MS", defaultValue = "20000",
            description = "How long to wait for what one topic shows and another not yet (default: ${DEFAULT-VALUE}).")
    long settleMs;

    @Option(names = "--json", description = "Prints the report as one JSON object.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditReconcileCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> reconcile(console));
    }

    private int reconcile(AuditConsole console) throws IOException {
        ServiceConfig config = log.client.load();
        if (log.client.registry == null) {
            return reconcile(console, config, null);
        }
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry())) {
            return reconcile(console, config, registry::byId);
        }
    }

    private int reconcile(AuditConsole console, ServiceConfig config, @Nullable IntFunction<Schema> resolver)
            throws IOException {
        String completions = completionsTopic == null ? config.string("topics.completions") : completionsTopic;
        AuditOptions options =
                log.options(config, completions, partition, Duration.ofMillis(Math.max(0, settleMs)), resolver);
        long from = since == null ? 0 : AuditTime.since("--since", since, Clock.systemUTC());
        Reconciliation found = AuditReconciler.run(options, from, console.progress());
        if (json) {
            console.print(report(found));
        } else {
            show(console, found);
        }
        return AuditConsole.exitCode(found.verdict());
    }

    private static ObjectNode report(Reconciliation found) {
        ObjectNode line = AuditConsole.object().put("verdict", AuditConsole.word(found.verdict()))
                .put("leaves", found.leaves()).put("completions", found.completions()).put("matched", found.matched())
                .put("expired", found.expired()).put("pruned", found.pruned());
        ObjectNode counts = line.putObject("counts");
        for (Kind kind : Kind.values()) {
            counts.put(name(kind), found.counts().get(kind));
        }
        ArrayNode findings = line.putArray("findings");
        found.findings().forEach(finding -> AuditConsole.violation(findings.addObject(), finding));
        return line.put("seconds", Math.round(found.seconds() * 1000) / 1000.0);
    }

    private static String name(Kind kind) {
        return kind.name().toLowerCase(Locale.ROOT);
    }

    private static void show(AuditConsole console, Reconciliation found) {
        console.say("%d completions and %d leaves read, %d completions agree with their leaf".formatted(
                found.completions(), found.leaves(), found.matched()));
        if (found.expired() > 0) {
            console.say("%d leaves are older than the oldest completion in the topic".formatted(found.expired()));
        }
        if (found.pruned() > 0) {
            console.say("%d completions are older than the oldest leaf in the topic".formatted(found.pruned()));
        }
        for (Kind kind : Kind.values()) {
            long count = found.counts().get(kind);
            if (count > 0) {
                console.say("%-16s %d".formatted(name(kind).replace('_', ' '), count));
            }
        }
        for (Refuted finding : found.findings().subList(0, Math.min(SHOWN, found.findings().size()))) {
            console.say("  " + finding);
        }
        if (found.count() > SHOWN) {
            console.say("  and %d more; --json lists up to %d".formatted(
                    found.count() - SHOWN, Reconciliation.MOST_FINDINGS));
        }
        console.say("verdict: %s (%.1f s)".formatted(
                found.verdict() instanceof Refuted ? "VIOLATED" : AuditConsole.word(found.verdict()), found.seconds()));
    }
}
