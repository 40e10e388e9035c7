package millrace.engine;

/// How the next token is chosen. Filters apply in this order: repetition penalty, temperature, top_k, top_p, min_p.
/// Temperature 0 is greedy. Ranges are checked by `TextEngine.prepare`, which answers with `PARAM_RANGE`.
public record Sampling(
        float temperature, float topP, int topK, float minP, float repetitionPenalty, long seed) {
    /// Names the algorithm and its random numbers: equal names draw equal tokens from equal logits, settings and seeds.
    public static final String ALGORITHM = "gumbel-philox/v1";

    public static final Sampling GREEDY = new Sampling(0f, 1f, 0, 0f, 1f, 0L);
}
