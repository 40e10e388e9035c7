package millrace.engine.kernel;

import java.lang.foreign.Arena;
import java.util.List;
import java.util.function.IntConsumer;
import millrace.engine.Device;
import millrace.engine.Products;
import millrace.engine.format.WeightFormat;
import org.jspecify.annotations.Nullable;

/// The operations that a transformer is made of, and what their bits are.
///
/// This is the numerical contract. Every result is defined down to the last bit by the orders given here, and no order
/// depends on the number of rows, on the position of a row in its batch, on threads, or on the machine. Two backends
/// that keep the contract are interchangeable. `fma(a, b, c)` rounds once; `u = 2⁻²⁴`, `γₙ = n·u / (1 − n·u)`.
///
/// | operation | order of each result                                                      | error                    |
/// |-----------|---------------------------------------------------------------------------|--------------------------|
/// | project,  | from 0, `acc = fma(w[o][k], x[k], acc)`, k ascending; then `+ bias[o]`    | `γₙ₊₁ (Σ│w·x│ + │bias│)` |
/// | plain     |                                                                           |                          |
/// | project,  | from 0, for each group g of columns, ascending: from 0, `part =           | `γₘ₊₁ (Σ│s·c·x│ +        |
/// | grouped   | fma(code[o][k], x[k], part)`, k ascending within the group;               | │bias│)`, m = columns of |
/// |           | `acc = fma(scale[o][g], part, acc)`; then `+ bias[o]`                     | a group + groups         |
/// | embed     | plain: the weight; grouped: `code · scale`, one multiplication            | 0; `u`                   |
/// | rmsNorm   | 16 partial sums of squares by fma, partial l takes i ≡ l mod 16           | `(γₙ/₁₆₊₅ / 2 + 3u) │y│` |
/// |           | ascending, pairwise tree; scale `1 / √(sum / n + ε)` in F64, rounded once;|                          |
/// |           | `(x[i] · scale) · w[i]`                                                   |                          |
/// | rotate    | `fma(x₀, cos, −(x₁ · sin))`, `fma(x₁, cos, x₀ · sin)`                     | `3u (│x₀│ + │x₁│)`       |
/// | swiglu    | `(g / (1 + exp(−g))) · up`, exp as [ExpMath]                              | 5 ulp, or 2⁻¹²⁵          |
/// | attention | scores as project over the head's dimensions, plain or, where keys are    | as its parts             |
/// |           | codes, grouped, see below; `· scale`; less their maximum; exp as          |                          |
/// |           | [ExpMath]; sum in 16 partials and tree as rmsNorm; from 0, `acc =         |                          |
/// |           | fma(e[t], v[t][d], acc)`, t ascending, where values are codes with        |                          |
/// |           | `e[t] · scale[t]` for `e[t]`; `acc · (1 / sum)`                           |                          |
/// | layerNorm | sum in 16 partials (partial l takes i ≡ l mod 16) and tree, `mean = sum / | as rmsNorm, of           |
/// |           | n` rounded once; `d[i] = x[i] − mean`; then as rmsNorm over d, `(d[i] ·   | `x − mean`               |
/// |           | scale) · w[i] + bias[i]`                                                  |                          |
/// | select    | from 0, `acc = fma(weight[h] · scale, max(0, dot[h]), acc)`, h ascending, | as its parts             |
/// |           | `dot` as the scores of attention; the choice is exact                     |                          |
/// | route     | `σ = 1 / (1 + exp(−z))`, exp as [ExpMath]; then in the order that         | as its parts             |
/// |           | [#route] gives                                                            |                          |
/// | combine   | from 0, `acc = fma(weight, y, acc)`, ascending by expert; then `+ shared` | `γₖ₊₁ Σ│weight · y│`     |
/// | add       | one addition                                                              | `u`                      |
///
/// [WeightFormat] says which formats are plain and which are grouped. A packed weight is the BF16 number that it holds,
/// so that its products have the bits of BF16's. Activations are F32 with every format.
///
/// Groups of a key are those that share a scale, see [CacheShape]. A rotated key of BF16 beside a latent in codes goes on
/// with `acc = fma(q[d], k[d], acc)` after the latent's groups. Where keys and values are stored rotated, queries are
/// rotated first and results last, by [Hadamard].
///
/// The tree over 16 partials adds partial `l + 8` to `l` for l < 8, then `l + 4` to `l` for l < 4, then 2, then 1.
/// NaN and infinities follow IEEE 754 through the same operations; the payload of a NaN is not defined.
///
/// This is the profile [#CPU_STRICT]. Another profile names other orders for some operations and says which.
///
/// ## Where things lie
///
/// A backend may have memory of its own. Then matrices and arrays of weights are taken over once ([#adopt(Matrix)]), KV
/// pages live there ([#cache]), and so do activations between operations ([#rows]): an operand is known by its identity
/// and nothing is copied on the way. What changes from step to step is sent before the operations, what the host wants
/// to read is fetched after them:
///
/// ```
///  inputs filled ──▶ send(inputs) ──▶ run(bucket, operations) ──▶ fetch(logits) ──▶ sampler
/// ```
///
/// On the host all of this is one memory, and sending and fetching are nothing.
///
/// An instance is used by one thread at a time. It may use more threads inside.
public interface Kernels extends AutoCloseable {
    /// The profile whose bits are those of the scalar loops.
    String CPU_STRICT = "cpu-strict/v3";

    /// Names the orders of summation and the precision of every operation: equal profiles, equal bits.
    default String profile() {
        return CPU_STRICT;
    }

    /// What computes, where that is not the processor.
    default Device device() {
        return Device.PROCESSOR;
    }

    /// Memory of its own that a backend may take in all, in bytes; 0 where it computes in that of the process.
    default long memoryBytes() {
        return 0;
    }

    /// What is left of it.
    default long memoryLeft() {
        return 0;
    }

    // ------------------------------------------------------------------------------------------------ where things lie

    /// New activations of zeros for operations to write and read. Their side on the heap may be missing.
    default Rows rows(int capacity, int width) {
        return Rows.allocate(capacity, width);
    }

    /// The same with a side on the heap, for what is sent or fetched.
    default Rows hostRows(int capacity, int width) {
        return Rows.allocate(capacity, width);
    }

    /// Brings the first rows of a matrix from the heap to where operations read it.
    ///
    /// @param rows of [#hostRows], all columns; they may be written again as soon as this returns
    default void send(Rows rows, int count) {}

    /// Brings the first rows of a matrix to the heap when all operations before have ended; waits for that.
    ///
    /// @param rows of [#hostRows], all columns
    default void fetch(Rows rows, int count) {}

    /// Room for the inputs of steps.
    ///
    /// @param maxRows the most rows of a step
    /// @param maxPages the most pages of one sequence
    /// @param rotaryDim width of the angles
    default StepInputs inputs(int maxRows, int maxPages, int rotaryDim) {
        return new StepInputs(maxRows, maxPages, hostRows(maxRows, rotaryDim));
    }

    /// Brings the inputs of a step to where operations read them. They may be written again as soon as this returns.
    default void send(StepInputs inputs) {}

    /// Looks at the pages of the inputs that were sent last, where the operations will find them; waits for that.
    ///
    /// @return the first segment with a page that it does not hold by the hand-out that it expects, −1 if there is none or the
    ///         pages are read through the tables of the host
    default int firstForeign(StepInputs inputs) {
        return -1;
    }

    /// Runs the operations of a step whose inputs were sent last.
    ///
    /// With a bucket they may be recorded once, and repeated for every later step of that bucket without being called:
    /// so they must be the same operations with the same operands each time, but for the number of rows, which is that
    /// of the inputs. They are only operations of this object, and nothing is sent or fetched among them.
    ///
    /// @param bucket of the inputs, see [StepInputs#bucket]; 0 for a step that is not recorded
    default void run(int bucket, Runnable operations) {
        operations.run();
    }

    /// Whether [#run] may record operations and repeat them: then they do not depend on the positions of the rows either.
    default boolean records() {
        return false;
    }

    /// Takes a matrix of weights over. Called for each before operations read it, and again after its bytes have been
    /// repaired in place, between two steps: recorded steps and tables of experts then read what was repaired.
    default void adopt(Matrix matrix) {}

    /// Takes an array of weights over: of norms, biases and corrections. As [#adopt(Matrix)].
    default void adopt(float[] values) {}

    /// Takes a table of experts over, whose matrices were before.
    default void adopt(Experts experts) {}

    /// The copies that were made of what was adopted, in order; none where operations read the original.
    default List<WeightCopy> copies() {
        return List.of();
    }

    /// Refuses a cache that attention cannot be computed over, before anything is taken for it.
    ///
    /// @param choosing whether attention is also asked for over chosen positions alone
    /// @throws millrace.engine.BackendException with the reason
    default void require(CacheShape shape, boolean choosing) {}

    /// New memory for KV pages, which the caller closes.
    default CacheMemory cache() {
        return new HostCache(CacheMemory.Algorithm.CRC32C, this::forEach);
    }

    // ---------------------------------------------------------------------------------------------------------- weights

    /// Repacks a matrix into memory of the arena, in the format that keeps its numbers: BF16 or F32.
    default Matrix pack(Matrix.Source source, Arena arena) {
        return pack(source, source.format(), arena);
    }

    /// Repacks a matrix into memory of the arena, in `target` or where that would lose what `target` is to keep in F32,
    /// see [Matrix.Source#format(WeightFormat)].
    ///
    /// @throws IllegalArgumentException if a grouped format meets a number that is not finite
    default Matrix pack(Matrix.Source source, WeightFormat target, Arena arena) {
        return Matrix.pack(arena, source, target, this::forEach);
    }

    /// Runs a task for each of `0 … count − 1`, on any thread, in any order; returns when all are done.
    void forEach(int count, IntConsumer task);

    // ------------------------------------------------------------------------------------------------------- operations

    /// Copies rows of the embedding: `y[t] = table[tokens[t]]`.
    void embed(Rows y, Matrix table, int[] tokens, int rows);

    /// Runs all products of the list.
    void project(Projections projections);

    /// Norms `heads` consecutive vectors of `weight.length` in each row: `y = x / √(mean(x²) + ε) ⊙ weight`; `y` may be
    /// `x`.
    void rmsNorm(Rows y, Rows x, float[] weight, float eps, int rows, int heads);

    /// `x += added`, then `y` the norm of it: as [#add] and [#rmsNorm] one after another; `y` is neither of the others.
    default void addNorm(Rows y, Rows x, Rows added, float[] weight, float eps, int rows) {
        add(x, added, rows);
        rmsNorm(y, x, weight, eps, rows, 1);
    }

    /// Rotates `rotaryDim` dimensions of each of `heads` vectors of `headDim` in each row, in place.
    ///
    /// @param from first rotated dimension of a head
    /// @param table `[rows][rotaryDim]`: a row's cosines, then its sines
    /// @param interleaved whether pairs are (2i, 2i + 1), else (i, i + rotaryDim / 2)
    void rotate(Rows x, int rows, int heads, int headDim, int from, Rows table, boolean interleaved);

    /// `gate = silu(gate) ⊙ up`, `silu(z) = z · σ(z)`.
    void swiglu(Rows gate, Rows up, int rows);

    /// Runs the products of a gate and of what it gates, two of one input by matrices of one shape, then `gate = silu(gate) ⊙ up`: as
    /// [#project] and [#swiglu] one after another. What `up` holds afterwards is not defined.
    ///
    /// @param pair the products into `gate` and into `up`, in this order
    default void projectGated(Projections pair, Rows gate, Rows up, int rows) {
        project(pair);
        swiglu(gate, up, rows);
    }

    /// `x += y`.
    void add(Rows x, Rows y, int rows);

    /// Writes keys and values of every row of the batch into its page; `keys` and `values` are `[rows][heads·headDim]`.
    ///
    /// @param layerOffset bytes from the start of a page to the layer's first block
    void store(CacheShape.Grouped shape, CacheBatch batch, long layerOffset, int heads, Rows keys, Rows values);

    /// Writes latents and rotated keys of every row of the batch into its page.
    void store(CacheShape.Latent shape, CacheBatch batch, long layerOffset, Rows latents, Rows ropeKeys);

    /// Causal attention over the cache: `out[t][h] = softmax(scale · q[t][h] · K) V`, K and V as the cache stores them,
    /// positions up to the row's own. `kvHeads` divides `heads`; head `h` reads KV head `h / (heads / kvHeads)`.
    void attend(
            CacheShape.Grouped shape,
            CacheBatch batch,
            long layerOffset,
            int heads,
            int kvHeads,
            float scale,
            Rows q,
            Rows out);

    /// The same over latents: a query is a latent part and a rotated part, which meet latent and rotated key as one
    /// vector of `rank + ropeDim`; the value is the latent.
    ///
    /// @param latentQ `[rows][heads · rank]`
    /// @param q `[rows][heads · headDim]`; the last `ropeDim` dimensions of each head are the rotated part
    /// @param out `[rows][heads · rank]`
    void attend(
            CacheShape.Latent shape,
            CacheBatch batch,
            long layerOffset,
            int heads,
            float scale,
            Rows latentQ,
            Rows q,
            Rows out);

    /// Norms each row about its mean: `y = (x − mean(x)) / √(mean((x − mean(x))²) + ε) ⊙ weight + bias`; `y` may be `x`.
    void layerNorm(Rows y, Rows x, float[] weight, float[] bias, float eps, int rows);

    /// Writes index keys of every row of the batch into its page.
    ///
    /// @param keys `[rows][dim]`
    void store(CacheShape.Keys shape, CacheBatch batch, long layerOffset, Rows keys);

    /// Room for the positions that rows attend to.
    default Selection selection(int maxRows, int most) {
        return Selection.onHeap(maxRows, most);
    }

    /// Chooses for each row of the batch the positions that it attends to, from those up to its own: all of them, if they are
    /// not more than `selection.most()`; else so many of the largest score, of equal ones the lowest. A score is
    /// `Σₕ weights[t][h] · scale · max(0, q[t][h] · key)`. NaN counts as the largest: it is not to be hidden.
    ///
    /// @param q `[rows][heads · dim]`
    /// @param weights `[rows][heads]`
    void select(
            CacheShape.Keys shape,
            CacheBatch batch,
            long layerOffset,
            int heads,
            float scale,
            Rows q,
            Rows weights,
            Selection selection);

    /// Moves the choices of the given rows to the front, in ascending order; `sources[i] ≥ i`.
    void gather(Selection selection, int[] sources, int rows);

    /// As [#attend(CacheShape.Latent, CacheBatch, long, int, float, Rows, Rows, Rows)] over the chosen positions alone, in
    /// ascending order, as if they followed one another.
    void attend(
            CacheShape.Latent shape,
            CacheBatch batch,
            long layerOffset,
            int heads,
            float scale,
            Rows latentQ,
            Rows q,
            Selection selection,
            Rows out);

    /// Copies rows in ascending order: `y[i] = x[sources[i]]`; `y` may be `x` if `sources[i] ≥ i`.
    void gather(Rows y, Rows x, int[] sources, int rows);

    /// Room for what [#inspect] finds out; null where rows lie on the heap and whoever asks looks itself.
    default @Nullable RowFacts facts(int maxRows, int width) {
        return null;
    }

    /// Finds out of each row whether its numbers are finite and how large, whether they differ, which is the largest, and its
    /// checksum.
    ///
    /// @param facts of [#facts], for rows of this width
    default void inspect(RowFacts facts, Rows x, int rows) {
        throw new UnsupportedOperationException("these kernels give no room for facts");
    }

    /// Brings what is known of the first rows to the host, see [#fetch(Rows, int)].
    default void fetch(RowFacts facts, int rows) {
        throw new UnsupportedOperationException("these kernels give no room for facts");
    }

    /// Brings the first rows of two matrices, and what is known of them, to the host, and waits only once. Rows of the first
    /// whose tokens are drawn by [RowFacts#draws] stay where they are, until [#bring].
    ///
    /// @param facts of the first matrix; null for none
    default void fetch(Rows first, Rows second, @Nullable RowFacts facts, int rows) {
        fetch(first, rows);
        fetch(second, rows);
        if (facts != null) {
            fetch(facts, rows);
        }
    }

    /// Brings a row that stayed where it was to the host; waits for that. Nothing has been written to it since.
    ///
    /// @param facts of the rows
    default void bring(Rows rows, RowFacts facts, int row) {}

    // --------------------------------------------------------------------------------------------- mixtures of experts

    /// Room for the choice of experts of at most so many rows.
    default Routing routing(int maxRows, RouterSpec spec) {
        return Routing.onHeap(maxRows, spec);
    }

    /// Chooses the experts of each row, and their weights, and sorts the pairs by expert, then by row.
    ///
    /// `s = σ(logit)`; the choice is by `s + bias`, the weight by `s` alone:
    ///
    /// 1. With several groups, a group's score is the sum of its two largest `s + bias`; experts outside the kept best
    ///    groups become `−∞`. (With 0 in place of `−∞`, as old implementations had it, they would win over kept experts
    ///    of negative score.)
    /// 2. The `perRow` largest are chosen; of equal ones the lower index.
    /// 3. Weights are divided by their sum, ascending by expert, plus 1e-20 if `normalize`, then multiplied by `scaling`.
    ///
    /// All in F32; the bias is never rounded to BF16, where its differences would vanish.
    ///
    /// @param logits `[rows][experts]`
    /// @param bias correction, one per expert
    void route(Routing routing, Rows logits, float[] bias, int rows);

    /// Copies each row to its slots: `y[slot] = x[sources[slot]]` for the `rows · perRow` slots.
    void gather(Rows y, Rows x, Routing routing, int rows);

    /// As [#swiglu(Rows, Rows, int)], for the `rows · perRow` slots.
    void swiglu(Rows gate, Rows up, Routing routing, int rows);

    /// As [#projectGated(Projections, Rows, Rows, int)], with a second pair for the experts that were chosen.
    ///
    /// @param pairs the products into `gate`, `up`, `expertGate` and `expertUp`, in this order
    default void projectGated(
            Projections pairs, Rows gate, Rows up, Rows expertGate, Rows expertUp, Routing routing, int rows) {
        project(pairs);
        swiglu(gate, up, rows);
        swiglu(expertGate, expertUp, routing, rows);
    }

    /// Weighted sums of expert outputs: `y[t] = Σⱼ weights[t][j] · x[slots[t][j]] + shared[t]`, j ascending.
    void combine(Rows y, Rows x, Routing routing, @Nullable Rows shared, int rows);

    /// Has some of the products of integers, which are exact, computed a second time in another way.
    ///
    /// @param every operations' parts to one of which a product is looked at; 1 for each, 0 for none
    default Products products(int every) {
        return Products.NONE;
    }

    /// Stops the threads and gives back memory of its own.
    @Override
    void close();
}
