package millrace.engine;

import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.stream.Collectors;
import millrace.engine.kernel.Kernels;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PagePool;

/// Splits the memory budget while a model is opened: first the weights, whose size is not a choice, then the scratch of
/// the largest step and the process itself, and what is left to the KV cache.
///
/// Where kernels compute in a memory of their own, that is the memory which is planned, and the process has no part in it.
/// What weights and scratch take there is not reckoned but read, once they have been taken.
///
/// A budget that cannot be kept is refused before the weights are read, where their size is known well enough, and in
/// any case before a page is taken.
final class MemoryPlanner {
    private static final double SHARE_OF_FREE = 0.8;

    /// What a stored byte becomes at most: load-time packing makes weights smaller, padding of panels hardly larger.
    private static final Map<String, Double> GROWTH =
            Map.of("stored", 1.0, "bf16", 1.0, "packed", 0.76, "int8", 0.54, "int4", 0.29);

    /// Of a memory of its own, what is kept for tables that grow with use.
    private static final long TABLES = 1 << 20;

    private static final double SHARE_FOR_TABLES = 0.01;

    private final EngineConfig config;
    private final Kernels kernels;
    private final KvLayout layout;
    private final int maxContext;
    private final long budget;

    /// Of a memory of its own, what was taken before there were weights.
    private final long taken;
    private Map<String, Long> weights = Map.of();
    private long checksums;

    /// @throws BackendException `KV_BUDGET`
    MemoryPlanner(EngineConfig config, Kernels kernels, KvLayout layout, int maxContext) {
        this.config = config;
        this.kernels = kernels;
        this.layout = layout;
        this.maxContext = maxContext;
        if (config.kvBytes() > 0 && config.kvBytes() < layout.pageBytes()) {
            throw new BackendException(
                    "KV_BUDGET",
                    "engine.kv.bytes: expected at least " + layout.pageBytes() + ", one page, got " + config.kvBytes()
                            + "; raise it, or leave it out to take what the memory budget leaves");
        }
        budget = ownMemory()
                ? kernels.memoryBytes()
                : config.memoryBytes() > 0 ? config.memoryBytes() : (long) (FreeMemory.bytes() * SHARE_OF_FREE);
        taken = kernels.memoryBytes() - kernels.memoryLeft();
    }

    /// The device that a configuration names, with its budget. The stand-in's memory is that of the machine, where the
    /// weights lie a second time.
    static CudaConfig device(EngineConfig config) {
        long bytes = config.memoryBytes();
        if (bytes == 0 && config.cuda().driver() == CudaConfig.Driver.STANDIN) {
            bytes = (long) (FreeMemory.bytes() * SHARE_OF_FREE / 2);
        }
        return config.cuda().withMemoryBytes(bytes);
    }

    private boolean ownMemory() {
        return kernels.memoryBytes() > 0;
    }

    KvLayout layout() {
        return layout;
    }

    /// Refuses a model that certainly does not fit, before time is spent on it.
    ///
    /// @throws BackendException `MEMORY_PLAN`
    void expectWeights(long storedBytes) {
        long expected = (long) (storedBytes * GROWTH.getOrDefault(config.weightFormat(), 1.0));
        if (expected + layout.pageBytes() > budget) {
            throw refused("weights of about " + expected + " bytes and one KV page of " + layout.pageBytes());
        }
    }

    /// Takes over what the weights take, by format, and their checksums.
    void weigh(Map<String, Long> bytesByFormat, long checksumBytes) {
        weights = bytesByFormat;
        checksums = checksumBytes;
    }

    /// Formats of the weights, most bytes first.
    String weightFormat() {
        return weights.entrySet().stream()
                .sorted(Map.Entry.<String, Long>comparingByValue().reversed().thenComparing(Map.Entry.comparingByKey()))
                .map(Map.Entry::getKey)
                .collect(Collectors.joining("+"));
    }

    /// The plan, once the weights are there.
    ///
    /// @param rows bytes of the rows of the largest step
    /// @throws BackendException `MEMORY_PLAN`
    MemoryPlan plan(long rows) {
        long scratch = rows + taken + tables();
        long weightBytes = ownMemory()
                ? budget - kernels.memoryLeft() - taken
                : weights.values().stream().mapToLong(Long::longValue).sum() + checksums;
        long runtime = ownMemory() ? 0 : runtimeBytes();
        long left = budget - weightBytes - scratch - runtime;
        String others = ownMemory()
                ? weightBytes + " bytes of weights and " + scratch + " of scratch"
                : weightBytes + " bytes of weights, " + scratch + " of scratch and " + runtime + " of the process";
        if (config.kvBytes() > 0) {
            if ((ownMemory() || config.memoryBytes() > 0) && config.kvBytes() > left) {
                throw refused(others + ", and a KV cache of " + config.kvBytes());
            }
            return new MemoryPlan(budget, weightBytes, scratch, runtime, config.kvBytes());
        }
        if (left < layout.pageBytes()) {
            throw refused(others + ", and one KV page of " + layout.pageBytes());
        }
        return new MemoryPlan(budget, weightBytes, scratch, runtime, Math.min(left, mostKv()));
    }

    private long tables() {
        return ownMemory() ? Math.max(TABLES, (long) (budget * SHARE_FOR_TABLES)) : 0;
    }

    /// The plan, once the scratch is there too: of a memory of its own it is known now what that took.
    ///
    /// @throws BackendException `MEMORY_PLAN`
    MemoryPlan settle(MemoryPlan planned) {
        if (!ownMemory()) {
            return planned;
        }
        long scratch = budget - kernels.memoryLeft() - planned.weights() + tables();
        long left = kernels.memoryLeft() - tables();
        long kv = config.kvBytes() > 0 ? config.kvBytes() : Math.min(left, mostKv());
        if (kv > left || left < layout.pageBytes()) {
            throw refused(planned.weights() + " bytes of weights and " + scratch + " of scratch, and a KV cache of "
                    + Math.max(kv, layout.pageBytes()));
        }
        return new MemoryPlan(budget, planned.weights(), scratch, 0, kv);
    }

    /// What the largest batch of the longest sequences can fill.
    private long mostKv() {
        return (long) PagePool.pagesFor(maxContext) * config.maxBatch() * layout.pageBytes();
    }

    /// What the Java process has taken so far beside what the engine allocates outside the heap.
    private static long runtimeBytes() {
        return Runtime.getRuntime().totalMemory()
                + ManagementFactory.getMemoryMXBean().getNonHeapMemoryUsage().getCommitted();
    }

    private BackendException refused(String needs) {
        String where = config.memoryBytes() > 0
                ? "engine.memory.bytes: expected enough for "
                : ownMemory() ? "memory of the device: expected enough for " : "memory: expected enough free for ";
        return new BackendException(
                "MEMORY_PLAN",
                where + needs + ", got " + budget + "; raise it, take a smaller engine.weights or engine.kv.format,"
                        + " or lower engine.prefill.chunk"
                        + (ownMemory() ? "; or set engine.backend to native, which computes in the machine's memory" : ""));
    }
}
