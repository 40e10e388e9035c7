package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.streams.QuotaTable.Limits;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Quotas through the whole topology, and how processes share them.
class QuotasTest {
    @TempDir
    private Path directory;

    private ServiceDriver service;

    private void start(Limits everybody, Map<String, Limits> own) {
        service = new ServiceDriver(directory, Map.of());
        service.quotas = new QuotaTable(everybody, own);
    }

    @AfterEach
    void theLogVerifies() {
        if (service != null) {
            service.verify();
            service.close();
        }
    }

    /// A prompt of so many tokens: the scripted engine's are the bytes of the text.
    private static Prompt of(String id, int promptTokens, int maxTokens) {
        return prompt(id, "x".repeat(promptTokens)).setTenant("acme").setSampling(Sampling.newBuilder().setMaxTokens(maxTokens).build())
                .build();
    }

    private Completion last() {
        return service.completion(service.completions.size() - 1);
    }

    @Test
    void refusesWhatExceedsTheTokensOfAMinuteAndSaysWhenToComeAgain() {
        start(Limits.NONE, Map.of("acme", new Limits(600, 0, 0)));
        service.send(of("r-1", 100, 400));
        service.send(of("r-2", 100, 100));
        Completion refused = last();
        assertThat(refused.getRequestId()).isEqualTo("r-2");
        assertThat(refused.getFinishReason()).isEqualTo(FinishReason.rejected);
        assertThat(refused.getErrorCode()).isEqualTo("QUOTA_TOKENS");
        assertThat(refused.getRetryAfterMs()).isBetween(9_000L, 10_000L);
        assertThat(refused.getErrorMessage()).isEqualTo("prompt: this tenant has used the 600 tokens that it may use in a minute; send it"
                + " again in " + refused.getRetryAfterMs() + " ms");
        AttestationRecord leaf = service.leaf(0);
        assertThat(leaf.getEvent()).isEqualTo(AuditEvent.REFUSED);
        assertThat(leaf.getErrorCode()).isEqualTo("QUOTA_TOKENS");

        service.pass(refused.getRetryAfterMs());
        service.send(of("r-2", 100, 100));
        assertThat(service.engine.submittedIds()).as("the same prompt again is a new try").containsExactly("r-1", "r-2");
        service.answerAll();
        assertThat(service.readCompletions()).extracting(Completion::getRequestId).containsExactly("r-2", "r-1", "r-2");
        assertThat(last().getFinishReason()).isEqualTo(FinishReason.stop);
        service.send(of("r-2", 100, 100));
        assertThat(service.completions).as("once it was served it is remembered").hasSize(3);
        assertThat(service.leaves).as("a leaf for each try, at its own place in the topic").hasSize(3);
        assertThat(List.of(0, 1, 2)).extracting(i -> service.leaf(i).getInOffset()).containsExactly(1L, 0L, 2L);
    }

    @Test
    void givesBackWhatWasNotUsed() {
        start(Limits.NONE, Map.of("acme", new Limits(600, 0, 0)));
        service.send(of("r-1", 100, 500));
        service.answerAll();
        service.send(of("r-2", 100, 397));
        assertThat(service.engine.submittedIds()).as("103 of 600 were used").containsExactly("r-1", "r-2");
        assertThat(service.counter("millrace.quota.tokens", "tenant", "acme")).isEqualTo(103);
    }

    @Test
    void refusesWhatIsTooManyAtOnce() {
        start(new Limits(0, 2, 0), Map.of());
        IntStream.range(0, 3).forEach(i -> service.send(of("r-" + i, 1, 1)));
        assertThat(last().getErrorCode()).isEqualTo("QUOTA_INFLIGHT");
        assertThat(last().getErrorMessage()).isEqualTo("prompt: expected at most 2 prompts of this tenant at once, got one more; send it"
                + " again when one of them is answered, or in 1000 ms");
        assertThat(last().getRetryAfterMs()).as("nothing is known yet").isEqualTo(1_000);
        service.send(prompt("r-9", "of another tenant").build());
        assertThat(service.engine.submittedIds()).containsExactly("r-0", "r-1", "r-9");

        service.pass(8_000);
        service.engine.answer("r-0");
        service.turn();
        service.send(of("r-2", 1, 1));
        service.send(of("r-3", 1, 1));
        assertThat(last().getRequestId()).isEqualTo("r-3");
        assertThat(last().getRetryAfterMs()).as("a prompt took 8 s, two are under way").isBetween(3_900L, 5_000L);
        service.answerAll();
        assertThat(service.counter("millrace.quota.refused", "tenant", "@others", "code", "QUOTA_INFLIGHT")).isEqualTo(2);
    }

    @Test
    void refusesWhatCanNeverBeServed() {
        start(new Limits(500, 0, 300), Map.of("acme", new Limits(100, 0, 0)));
        service.send(prompt("r-1", "x".repeat(200)).setSampling(Sampling.newBuilder().setMaxTokens(101).build()).build());
        assertThat(last().getErrorCode()).isEqualTo("QUOTA_CONTEXT");
        assertThat(last().getErrorMessage()).isEqualTo("prompt: expected at most 300 tokens for this tenant, got 200 and max_tokens of 101;"
                + " shorten it or ask for fewer");
        assertThat(last().getRetryAfterMs()).isNull();
        service.send(of("r-2", 50, 51));
        assertThat(last().getErrorCode()).isEqualTo("QUOTA_TOKENS");
        assertThat(last().getErrorMessage()).isEqualTo("prompt: expected at most the 100 tokens that this tenant may use in a minute, got 50"
                + " and max_tokens of 51; shorten it or ask for fewer");
        assertThat(last().getRetryAfterMs()).isNull();
        assertThat(service.engine.submitted).isEmpty();
    }

    @Test
    void limitsPromptsWithoutATenantAsOne() {
        start(Limits.NONE, Map.of(QuotaTable.ANONYMOUS, new Limits(0, 1, 0)));
        service.send(prompt("r-1", "q").build());
        service.send(prompt("r-2", "q").build());
        service.send(of("r-3", 1, 1));
        assertThat(last().getErrorCode()).isEqualTo("QUOTA_INFLIGHT");
        assertThat(service.engine.submittedIds()).containsExactly("r-1", "r-3");
        assertThat(service.counter("millrace.quota.refused", "tenant", "@anonymous", "code", "QUOTA_INFLIGHT")).isEqualTo(1);
    }

    @Test
    void countsACancelledPromptByWhatItUsed() {
        start(Limits.NONE, Map.of("acme", new Limits(600, 1, 0)));
        service.send(of("r-1", 100, 500));
        service.cancel("acme", "r-1");
        service.engine.stop("r-1", "a");
        service.turn();
        service.send(of("r-2", 100, 399));
        assertThat(service.engine.submittedIds()).containsExactly("r-1", "r-2");
    }

    @Test
    void takesLimitsThatChangeWhileItRuns() {
        start(new Limits(0, 1, 0), Map.of());
        service.send(of("r-1", 1, 1));
        service.send(of("r-2", 1, 1));
        assertThat(last().getErrorCode()).isEqualTo("QUOTA_INFLIGHT");
        service.quotas = new QuotaTable(new Limits(0, 2, 0), Map.of());
        service.send(of("r-2", 1, 1));
        assertThat(service.engine.submittedIds()).containsExactly("r-1", "r-2");
    }

    @Test
    void aWallClockThatIsSetGivesNobodyTokens() {
        TestClock clock = new TestClock();
        long[] nanos = {0};
        Quotas quotas = quotas(new Limits(600, 0, 0), 1, nanos);
        quotas.assigned(0);
        assertThat(quotas.admit("acme", 300, 300)).isInstanceOf(Quotas.Grant.class);
        clock.advance(86_400_000);
        assertThat(quotas.admit("acme", 300, 300)).isInstanceOfSatisfying(Quotas.Refused.class, refused ->
                assertThat(refused.retryAfterMs()).isEqualTo(60_000));
    }

    private static Quotas quotas(Limits limits, int partitions, long[] nanos) {
        Ticker ticker = new Ticker() {
            @Override
            public long nanos() {
                return nanos[0];
            }

            @Override
            public void pause(long ms) {
                nanos[0] += ms * 1_000_000L;
            }
        };
        return new Quotas(() -> new QuotaTable(limits, Map.of()), partitions, ticker, new ServiceMetrics(new SimpleMeterRegistry()));
    }

    private static int granted(Quotas quotas, int wanted) {
        return (int) IntStream.range(0, wanted).filter(i -> quotas.admit("acme", 1, 0) instanceof Quotas.Grant).count();
    }

    @Test
    void processesTogetherGrantTheWhole() {
        long[] nanos = {0};
        Map<Integer, Quotas> owners = new HashMap<>();
        Quotas one = quotas(new Limits(800, 0, 0), 8, nanos);
        Quotas two = quotas(new Limits(800, 0, 0), 8, nanos);
        IntStream.range(0, 8).forEach(p -> owners.put(p, p < 3 ? one : two));
        owners.forEach((partition, owner) -> owner.assigned(partition));
        assertThat(granted(one, 1_000)).isEqualTo(300);
        assertThat(granted(two, 1_000)).isEqualTo(500);
        nanos[0] += 6_000_000_000L;
        assertThat(granted(one, 1_000) + granted(two, 1_000)).as("a tenth of a minute").isEqualTo(80);

        IntStream.range(0, 3).forEach(one::revoked);
        IntStream.range(0, 3).forEach(two::assigned);
        assertThat(granted(two, 1_000)).as("a rebalance gives nobody tokens").isZero();
        nanos[0] += 6_000_000_000L;
        assertThat(granted(two, 1_000)).as("the rate is the whole now").isEqualTo(80);
    }

    @Test
    void sharesWhatMayBeInFlight() {
        Quotas quotas = quotas(new Limits(0, 10, 0), 4, new long[1]);
        quotas.assigned(0);
        assertThat(granted(quotas, 20)).as("2.5, rounded up").isEqualTo(3);
        quotas.assigned(1);
        quotas.assigned(2);
        quotas.assigned(3);
        assertThat(granted(quotas, 20)).isEqualTo(7);
        Quotas few = quotas(new Limits(0, 1, 0), 4, new long[1]);
        few.assigned(3);
        assertThat(granted(few, 20)).as("nobody is shut out").isEqualTo(1);
    }

    @Test
    void forgetsTenantsThatWereMadeUp() {
        long[] nanos = {0};
        Quotas quotas = quotas(new Limits(100, 0, 0), 1, nanos);
        quotas.assigned(0);
        for (int i = 0; i < 30_000; i++) {
            nanos[0] += 1_000_000_000L;
            Quotas.Decision decision = quotas.admit("made-up-" + i, 1, 0);
            ((Quotas.Grant) decision).end(1);
        }
        assertThat(quotas.known()).isLessThanOrEqualTo(10_001);
    }
}
