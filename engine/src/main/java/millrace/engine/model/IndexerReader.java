package millrace.engine.model;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Stream;
import millrace.engine.kernel.CacheShape;
import millrace.engine.weights.Text;

/// Reads what config.json says of the indexer of sparse attention.
///
/// Which layers have an indexer of their own is told by the first of these that is there: `indexer_types`, a list of `full`
/// and `shared`; `index_topk_pattern`, a string of F and S; `index_topk_freq` f and `index_skip_topk_offset` o, by which
/// layer i does if `max(i − o + 1, 0)` is a multiple of f.
final class IndexerReader {
    private static final String TYPES = "indexer_types";
    private static final String PATTERN = "index_topk_pattern";
    private static final String FREQUENCY = "index_topk_freq";
    private static final String OFFSET = "index_skip_topk_offset";
    /// Keys that make a model one of sparse attention.
    private static final List<String> TELLING =
            List.of("index_topk", "index_n_heads", "index_head_dim", TYPES, PATTERN, FREQUENCY);

    /// What every format of index keys holds.
    private static final int MOST_HEAD_DIM = CacheShape.Grouped.MOST_INT8_DIM;

    private final ConfigSection text;
    private final ModelFamily family;
    private final int layers;

    private IndexerReader(ConfigSection text, ModelFamily family, int layers) {
        this.text = text;
        this.family = family;
        this.layers = layers;
    }

    /// @param rotaryDim dimensions that are rotated, the first of an index head
    /// @param context the model's, tokens: no query has more positions
    static IndexerConfig read(ConfigSection text, ModelFamily family, int layers, int rotaryDim, int context) {
        return new IndexerReader(text, family, layers).read(rotaryDim, context);
    }

    /// Refuses sparse attention in a model of a family without.
    static void requireNone(ConfigSection text, ModelFamily family) {
        for (String key : TELLING) {
            if (text.has(key)) {
                throw text.error(
                        "CONFIG_UNSUPPORTED",
                        key,
                        "none in a " + family + " model",
                        "one",
                        "check that model_type and architectures are those of the model");
            }
        }
    }

    private IndexerConfig read(int rotaryDim, int context) {
        int headDim = text.integer("index_head_dim", 2, MOST_HEAD_DIM);
        if (headDim < rotaryDim) {
            throw text.range("index_head_dim", "at least qk_rope_head_dim " + rotaryDim, headDim);
        }
        return new IndexerConfig(
                Math.min(text.integer("index_topk", 1, ConfigReader.MAX_CONTEXT), context),
                text.integer("index_n_heads", 1, 4096),
                headDim,
                text.flag("indexer_rope_interleave", family == ModelFamily.GLM_MOE_DSA),
                full(),
                text.flag("index_share_for_mtp_iteration", false));
    }

    private List<Boolean> full() {
        if (text.has(TYPES)) {
            return named(TYPES, text.texts(TYPES), "full", "shared");
        }
        if (text.has(PATTERN)) {
            List<String> letters = text.text(PATTERN).chars().mapToObj(Character::toString).toList();
            return named(PATTERN, letters, "F", "S");
        }
        int frequency = text.integerOr(FREQUENCY, 1, 1024, 1);
        int offset = text.integerOr(OFFSET, 0, 1024, 2);
        var full = new ArrayList<Boolean>(layers);
        for (int layer = 0; layer < layers; layer++) {
            full.add(Math.max(layer - offset + 1, 0) % frequency == 0);
        }
        if (!full.getFirst()) {
            throw text.range(OFFSET, "1 or more, so that the first layer has an indexer", offset);
        }
        return full;
    }

    /// One name for each layer; there may be more, for draft layers, which have an indexer of their own.
    private List<Boolean> named(String key, List<String> names, String own, String shared) {
        String advice = "restore config.json";
        boolean known = names.stream().allMatch(name -> name.equals(own) || name.equals(shared));
        if (names.size() < layers || !known) {
            Stream<String> distinct = new TreeSet<>(names).stream().map(Text::quote).limit(4);
            throw text.error(
                    "CONFIG_RANGE",
                    key,
                    own + " or " + shared + " for each of " + layers + " layers",
                    names.size() + " values " + distinct.toList(),
                    advice);
        }
        if (!names.getFirst().equals(own)) {
            throw text.error("CONFIG_RANGE", key, own + " in the first layer", Text.quote(shared), advice);
        }
        if (names.subList(layers, names.size()).contains(shared)) {
            throw text.error("CONFIG_UNSUPPORTED", key, own + " in draft layers", Text.quote(shared), advice);
        }
        return names.subList(0, layers).stream().map(own::equals).toList();
    }
}
