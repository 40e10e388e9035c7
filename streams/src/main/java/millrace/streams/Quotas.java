package millrace.streams;

import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import millrace.engine.PreparedPrompt;
import org.jspecify.annotations.Nullable;

/// What each tenant may use of this process: tokens per minute, prompts in flight, and the size of one prompt.
///
/// A process grants the share of the prompt partitions that it has, so that the processes of a service together grant the
/// whole without speaking to one another. A prompt reserves its tokens and `max_tokens`; what it has not used comes back with
/// its end. Any thread. Nothing is kept over a restart: a process begins with full buckets, and counts what it resumes.
final class Quotas {
    private static final int MOST_IDLE = 10_000;
    private static final long FIRST_GUESS_MS = 1_000;
    private static final long SHORTEST_GUESS_MS = 100;
    private static final long LONGEST_GUESS_MS = 60_000;
    /// Each end moves the mean by this part of its distance.
    private static final int MEMORY = 8;

    /// What came of the question whether a prompt may begin.
    sealed interface Decision {}

    /// @param retryAfterMs after how long it may be sent again; null where waiting does not help
    record Refused(String code, String message, @Nullable Long retryAfterMs) implements Decision {}

    /// A prompt that was let in; to be ended once.
    final class Grant implements Decision {
        private final Tenant tenant;
        private final long reserved;
        private final long sinceNanos;
        private boolean ended;

        private Grant(Tenant tenant, long reserved, long sinceNanos) {
            this.tenant = tenant;
            this.reserved = reserved;
            this.sinceNanos = sinceNanos;
        }

        /// Says that the prompt has ended, and how many tokens it has used.
        void end(long used) {
            synchronized (Quotas.this) {
                if (!ended) {
                    ended = true;
                    long now = ticker.nanos();
                    tenant.ended(reserved - Math.min(reserved, used), now, now - sinceNanos);
                    metrics.quotaUsed(tenant.label, used);
                }
            }
        }

        /// Says that this process is not to answer it any more: whoever does reserves anew.
        void drop() {
            synchronized (Quotas.this) {
                if (!ended) {
                    ended = true;
                    tenant.ended(reserved, ticker.nanos(), -1);
                }
            }
        }
    }

    private final class Tenant {
        final String label;
        QuotaTable.Limits limits;
        @Nullable TokenBucket bucket;
        int inflight;
        long meanNanos = -1;

        Tenant(String label, QuotaTable.Limits limits, long nowNanos) {
            this.label = label;
            this.limits = limits;
            limit(limits, nowNanos);
        }

        void limit(QuotaTable.Limits now, long nowNanos) {
            limits = now;
            if (now.tokensPerMinute() == 0) {
                bucket = null;
            } else if (bucket == null) {
                bucket = new TokenBucket(now.tokensPerMinute(), partitions, assigned.cardinality(), nowNanos);
            } else {
                bucket.resize(now.tokensPerMinute(), assigned.cardinality(), nowNanos);
            }
        }

        void ended(long unused, long nowNanos, long tookNanos) {
            inflight--;
            if (bucket != null) {
                bucket.give(unused, nowNanos);
            }
            if (tookNanos >= 0) {
                meanNanos = meanNanos < 0 ? tookNanos : meanNanos + (tookNanos - meanNanos) / MEMORY;
            }
        }

        /// A guess at when the next of its prompts ends, milliseconds: they take their mean and end evenly.
        long nextEndMs() {
            long guess = meanNanos < 0 ? FIRST_GUESS_MS : meanNanos / 1_000_000L / Math.max(1, inflight);
            return Math.clamp(guess, SHORTEST_GUESS_MS, LONGEST_GUESS_MS);
        }

        boolean isIdle(long nowNanos) {
            return inflight == 0 && (bucket == null || bucket.isFull(nowNanos));
        }
    }

    private final Supplier<QuotaTable> source;
    private final int partitions;
    private final Ticker ticker;
    private final ServiceMetrics metrics;
    private final BitSet assigned = new BitSet();
    private final Map<String, Tenant> tenants = new HashMap<>();
    private QuotaTable table;

    /// @param partitions of the prompts topic
    Quotas(Supplier<QuotaTable> source, int partitions, Ticker ticker, ServiceMetrics metrics) {
        this.source = source;
        this.partitions = partitions;
        this.ticker = ticker;
        this.metrics = metrics;
        this.table = source.get();
    }

    /// A partition of the prompts topic is this process's from now on.
    synchronized void assigned(int partition) {
        assigned.set(partition);
        resize();
    }

    /// It is so no longer.
    synchronized void revoked(int partition) {
        assigned.clear(partition);
        resize();
    }

    private void resize() {
        long now = ticker.nanos();
        tenants.forEach((name, tenant) -> tenant.limit(table.of(name), now));
    }

    /// Lets a prompt begin, or says why not.
    ///
    /// @param admitted whether it was let in before
    Decision decide(@Nullable String name, PreparedPrompt prompt, boolean admitted) {
        int tokens = prompt.ids().length;
        int more = prompt.request().maxNewTokens();
        return admitted ? resume(name, tokens, more) : admit(name, tokens, more);
    }

    /// Lets a prompt begin, or says why not.
    synchronized Decision admit(@Nullable String name, int promptTokens, int maxTokens) {
        Tenant tenant = tenant(QuotaTable.name(name));
        long tokens = (long) promptTokens + maxTokens;
        Refused refused = refusal(tenant, tokens, promptTokens, maxTokens);
        if (refused != null) {
            metrics.quotaRefused(tenant.label, refused.code());
            return refused;
        }
        return grant(tenant, tokens);
    }

    /// Counts a prompt that was let in before, perhaps by another process: it is never refused.
    synchronized Grant resume(@Nullable String name, int promptTokens, int maxTokens) {
        return grant(tenant(QuotaTable.name(name)), (long) promptTokens + maxTokens);
    }

    private Grant grant(Tenant tenant, long tokens) {
        long now = ticker.nanos();
        tenant.inflight++;
        if (tenant.bucket != null) {
            tenant.bucket.take(tokens, now);
        }
        return new Grant(tenant, tokens, now);
    }

    private @Nullable Refused refusal(Tenant tenant, long tokens, int promptTokens, int maxTokens) {
        QuotaTable.Limits limits = tenant.limits;
        if (limits.context() > 0 && tokens > limits.context()) {
            return new Refused("QUOTA_CONTEXT", "prompt: expected at most " + limits.context() + " tokens for this tenant, got "
                    + promptTokens + " and max_tokens of " + maxTokens + "; shorten it or ask for fewer", null);
        }
        if (limits.tokensPerMinute() > 0 && tokens > limits.tokensPerMinute()) {
            return new Refused("QUOTA_TOKENS", "prompt: expected at most the " + limits.tokensPerMinute()
                    + " tokens that this tenant may use in a minute, got " + promptTokens + " and max_tokens of " + maxTokens
                    + "; shorten it or ask for fewer", null);
        }
        if (limits.inflight() > 0 && tenant.inflight >= share(limits.inflight())) {
            long guess = tenant.nextEndMs();
            return new Refused("QUOTA_INFLIGHT", "prompt: expected at most " + share(limits.inflight())
                    + " prompts of this tenant at once, got one more; send it again when one of them is answered, or in "
                    + guess + " ms", guess);
        }
        TokenBucket bucket = tenant.bucket;
        long wait = bucket == null ? 0 : bucket.waitMs(tokens, ticker.nanos());
        return wait == 0 ? null : new Refused("QUOTA_TOKENS", "prompt: this tenant has used the "
                + limits.tokensPerMinute() + " tokens that it may use in a minute; send it again in " + wait + " ms", wait);
    }

    /// What this process may let in at once: its share, rounded up, and at least one.
    private int share(int limit) {
        long product = (long) limit * assigned.cardinality();
        return (int) Math.max(1, (product + partitions - 1) / partitions);
    }

    private Tenant tenant(String name) {
        QuotaTable now = source.get();
        if (!now.equals(table)) {
            table = now;
            resize();
        }
        Tenant tenant = tenants.get(name);
        if (tenant == null) {
            long nanos = ticker.nanos();
            if (tenants.size() >= MOST_IDLE) {
                // Clients make names up. One that is idle with a full bucket is as one that was never seen.
                tenants.values().removeIf(other -> other.isIdle(nanos));
            }
            tenant = new Tenant(label(name), table.of(name), nanos);
            tenants.put(name, tenant);
        }
        return tenant;
    }

    /// Tenants that are remembered.
    synchronized int known() {
        return tenants.size();
    }

    /// What metrics call a tenant: only who has limits of its own is named.
    private String label(String name) {
        return name.equals(QuotaTable.ANONYMOUS) || table.byTenant().containsKey(name) ? name : QuotaTable.OTHERS;
    }
}
